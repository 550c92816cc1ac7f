"""The tests, by what they prove.

unit/       one file of src, by itself
contract/   every store, codec and repo keeps the same promises
property/   laws that hold for any history, found out by Hypothesis
simulation/ processes, threads and faults in an order that a seed decides
fault/      kills, power cuts, full disks, flipped bits, races
compat/     stores written by every format there ever was
traces/     programs run in steps, in processes of their own and across kills, and compared
journey/    the documents and the command line, used as a person would
reference/  a repo of plain dicts, random histories beside it, and the promises of every repo
house/      the project itself: imports, sizes, names, errors
"""
