"""An agent with tools, a plan and a memory works on a folder of files and reads them again."""
# raises: 11

# %%
import json
from pathlib import Path

memory = {"facts": {}, "notes": [], "files": {}, "turn": 0}
plan = [
    {"id": 1, "goal": "look around", "status": "open", "needs": []},
    {"id": 2, "goal": "collect the readings", "status": "open", "needs": [1]},
    {"id": 3, "goal": "write a summary", "status": "open", "needs": [2]},
]
memory["plan"] = plan

# %%
inbox = Path("inbox")
inbox.mkdir(exist_ok=True)
for day, values in {"mon": [3, 5], "tue": [4], "wed": [], "thu": [9, 1, 2]}.items():
    (inbox / f"{day}.json").write_text(json.dumps({"day": day, "values": values}))
(inbox / "broken.json").write_text('{"day": "fri", "values": [1,')

# %%
tools = {}


def tool(function):
    tools[function.__name__] = {"call": function, "help": function.__doc__, "used": 0}
    return function


@tool
def list_files(folder="inbox"):
    """Names of the files in a folder."""
    return sorted(path.name for path in Path(folder).iterdir())


@tool
def read_json(name):
    """Content of a file of the inbox."""
    return json.loads((inbox / name).read_text())


@tool
def note(text, *, about=None):
    """Remember a sentence."""
    entry = {"turn": memory["turn"], "text": text, "about": about}
    memory["notes"].append(entry)
    return entry


# %%
transcript = []


def act(name, *args, **kwargs):
    memory["turn"] += 1
    tools[name]["used"] += 1
    step = {"turn": memory["turn"], "tool": name, "args": list(args), **kwargs}
    transcript.append(step)
    try:
        step["result"] = tools[name]["call"](*args, **kwargs)
    except Exception as problem:
        step["error"] = f"{type(problem).__name__}: {problem}"
        return None
    return step["result"]


found = act("list_files")
print(found)


# %%
def close(number, **more):
    task = next(task for task in plan if task["id"] == number)
    task.update(status="done", **more)
    return [
        t["id"]
        for t in plan
        if t["status"] == "open" and all(plan[n - 1]["status"] == "done" for n in t["needs"])
    ]


ready = close(1, found=found)
print(ready, memory["plan"][0]["found"] is found)

# %%
for name in found:
    content = act("read_json", name)
    if content is not None:
        memory["files"][name] = content
errors = [step for step in transcript if "error" in step]
print(len(errors), sorted(memory["files"]))

# %%
first_note = act("note", "one file does not parse", about=errors[0]["args"][0])
first_note["urgent"] = True
print(memory["notes"][0], transcript[-1]["result"] is first_note)

# %%
(inbox / "broken.json").write_text('{"day": "fri", "values": [1, 8]}')
memory["files"]["broken.json"] = act("read_json", "broken.json")
ready = close(2, readings={name: content["values"] for name, content in memory["files"].items()})

# %%
summary = {
    content["day"]: {"n": len(content["values"]), "sum": sum(content["values"])}
    for content in memory["files"].values()
}
memory["facts"]["summary"] = summary
busiest = max(summary, key=lambda day: (summary[day]["n"], day))
Path("summary.json").write_text(json.dumps(summary, indent=1, sort_keys=True))

# %%
working = {"focus": busiest, "evidence": memory["files"][f"{busiest}.json"]["values"]}
working["evidence"].append(100)
memory["working"] = working
print(plan[1]["readings"][f"{busiest}.json"])

# %%
memory["turn"] += 1
plan.append({"id": 4, "goal": "divide", "status": "open", "needs": [3]})
memory["facts"]["average"] = sum(working["evidence"]) / summary["wed"]["n"]

# %%
act("note", "the average failed; there was nothing on Wednesday", about="wed")
plan[-1]["status"] = "dropped"
close(3)


# %%
@tool
def recall(word):
    """Notes that speak of a word."""
    return [entry for entry in memory["notes"] if word in entry["text"]]


answers = {word: act("recall", word) for word in ("average", "file", "cat")}
print({word: len(hits) for word, hits in answers.items()})

# %%
reread = json.loads(Path("summary.json").read_text())
agrees = reread == summary
saved = json.dumps({"memory": memory, "ready": ready}, sort_keys=True, default=str)
usage = {name: entry["used"] for name, entry in tools.items()}
print(agrees, usage, memory["turn"], len(saved))
