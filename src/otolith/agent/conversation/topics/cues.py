"""Phrases by which people open a topic, go back to one, go on with it, or close it."""

from __future__ import annotations

import re

from otolith.agent.conversation.entities import content_words

_NEW = (
    r"by the way|btw|another (?:thing|question|topic)|(?:one|two) more (?:thing|question)s?|"
    r"(?:a )?different (?:question|topic|thing)|on another note|on a different note|"
    r"changing (?:the )?(?:topic|subject)|(?:let'?s )?(?:switch|change)(?: the)?(?: topic|"
    r" subject|ing)|new (?:topic|question|subject)|unrelated|"
    r"separately|moving on|next (?:topic|question|up)|before i forget|while i'?m at it|"
    r"totally off[ -]topic|off[ -]topic|quick question|switching gears|speaking of|"
    r"übrigens|(?:eine )?andere frage|(?:etwas|was) ganz anderes|themenwechsel|"
    r"ganz anderes thema|neues thema|nächstes thema|nebenbei|apropos|noch (?:eine|ne) frage|"
    r"bevor ich(?:'s| es) vergesse|außerdem (?:brauche|möchte|wollte|suche)|mal (?:etwas|"
    r"was) anderes|andere sache|kurze (?:zwischen)?frage|zwischenfrage"
)
_BACK = (
    r"(?:going |coming |get(?:ting)? |let'?s (?:go|get) |go(?:ing)? |circling |can we (?:go|"
    r"get) |i'?d like to (?:go|come) )?back to|(?:to )?return(?:ing)? to|as (?:for|to) the|"
    r"(?:re)?turning to|(?:about|regarding|concerning) (?:the|that|my|our) [\w -]+ (?:again|"
    r"from (?:before|earlier))|(?:the|that) [\w-]+ (?:from (?:before|earlier)|we (?:talked|"
    r"spoke|discussed)|you (?:mentioned|found|showed|suggested))|where were we|earlier (?:you|"
    r"we|i)|what about (?:the|that) [\w-]+ (?:again|from)|(?:you|we|i) (?:said|"
    r"mentioned) (?:earlier|before)|remember (?:the|that)|(?:noch ?mal |wieder |"
    r"jetzt )?zurück z(?:u|um|ur)|(?:noch ?mal|nochmals|wieder) z(?:u|um|ur)|"
    r"um auf .{3,60} zurückzukommen|was (?:ist|war) (?:nochmal|eigentlich) mit|wegen (?:des|der|"
    r"dem|meine[srm]?) [\w-]+ (?:von vorhin|nochmal)|von vorhin|von eben|(?:wie|was) (?:war|"
    r"waren) (?:nochmal|noch mal|noch)|vorhin"
)
_AGAIN = r"\b(?:anyway|anyhow|so anyway|jedenfalls|wie auch immer|nun gut)\b"
_ON = (
    r"^(?:and|but|or|then|so|ok(?:ay)?|yes|yeah|yep|no|nope|sure|great|perfect|good|nice|cool|"
    r"right|exactly|hm+|well|what about|how about|why|which|really|thanks|thank you|please do|"
    r"do it|go ahead|sounds good|got it|und|aber|oder|dann|also|ja|nein|gut|super|prima|genau|"
    r"klar|okay|stimmt|passt|wie wäre|und was|welche[rsnm]?|warum|wirklich|danke|mach das|"
    r"bitte)\b"
)
_CLOSE = (
    r"\b(?:that'?s (?:all|it|everything)|that (?:is|was) all|that'?ll be all|no(?:thing|"
    r" more)(?: else| questions)|all (?:set|done|good)|problem solved|(?:it|that) (?:works|"
    r"worked)(?: now)?|solved|case closed|we'?re done|done with that|"
    r"thanks?(?: you)?(?: so much| a lot| very much)?(?:[,.!] (?:that|bye|perfect|"
    r"great).*)?[.!]*$|perfect,? thanks?|great,? thanks?|goodbye|bye|das (?:war'?s|wars|"
    r"ist alles|wäre alles)|mehr brauche ich nicht|erledigt|problem gelöst|hat geklappt|"
    r"funktioniert jetzt|vielen dank|danke(?: dir| schön| sehr)?[.!]*$|tschüss)"
)
_REFERS = (
    r"\b(?:it|its|they|them|their|he|him|his|she|her|these|those|that one|this one|"
    r"the other one|the (?:first|second|third|last|cheapest|former|latter)(?: one)?|both|"
    r"neither|either of|one of (?:them|those|these)|instead|er|ihn|ihm|sie|ihnen|ihr|"
    r"diese[rnms]?|jene[rnms]?|davon|damit|dafür|darauf|darüber|dazu|dabei|daran|dort|de(?:r|n|"
    r"m)(?:selbe[nrm]?|jenige[nrm]?)|beide[nrm]?|stattdessen|(?:der|die|das|den) (?:erste|"
    r"zweite|dritte|letzte|andere|billigste|günstigste)[nrm]?)\b"
)
_GREETS = r"^(?:hi|hello|hey|good (?:morning|afternoon|evening)|hallo|guten (?:tag|morgen|abend))\b"
_REQUESTS = (
    r"\bi(?:'d| would| am|'m)?(?: also| really)? (?:need|want|like|looking|trying|planning)\b|"
    r"\b(?:can|could|would|will) you\b|\bhelp me\b|\b(?:is|are) there\b|"
    r"^(?:please )?(?:what|where|when|how|who|tell|give|show|get|find|book|remind|schedule|set|"
    r"check|search|look|make|write|play|add|order)\b|"
    r"\bich (?:suche|brauche|möchte|will|hätte|würde)\b|\b(?:kannst du|könntest du|können sie|"
    r"könnten sie|gibt es|hilf mir)\b|"
    r"^(?:bitte )?(?:was|wo|wann|wie|wer|zeig|such|find|buch|schreib|erinner|plan)[a-zäöü]*\b"
)
_INTRODUCED = re.compile(
    r"\b(?:a|an(?= [aeiouh])|any|some|my|meine?[nrm]?|eine?[nrm]?)\s+"
    r"((?:[^\W\d_-]+[ -]){0,2}[^\W\d_]+)",
    re.IGNORECASE,
)
_MORE = (
    r"\bany(?:thing|where)? (?:else|more|other)|\bsomething else|\bwhat else|\bfurther|"
    r"(?:help|assist) you with|\bwelcome\b|\benjoy\b|\bbye\b|\bhappy to help|"
    r"\b(?:great|nice|good|wonderful|lovely) (?:day|trip|time|stay|one|evening|night)\b|"
    r"\bsonst noch|\bnoch etwas|\bgern geschehen|\bviel (?:spaß|erfolg)|\bschönen tag"
)
_DONE = (
    r"\b(?:done|confirmed|booked|reserved|sent|scheduled|added|created|completed?|saved|ordered|"
    r"success\w*|erledigt|fertig|gebucht|reserviert|gesendet|verschickt|eingetragen|gespeichert|"
    r"bestellt|angelegt)\b"
)

_SETS = {
    "new": re.compile(rf"\b(?:{_NEW})\b", re.IGNORECASE),
    "back": re.compile(rf"\b(?:{_BACK})\b", re.IGNORECASE),
    "again": re.compile(_AGAIN, re.IGNORECASE),
    "on": re.compile(_ON, re.IGNORECASE),
    "close": re.compile(_CLOSE, re.IGNORECASE),
    "refers": re.compile(_REFERS, re.IGNORECASE),
    "greets": re.compile(_GREETS, re.IGNORECASE),
    "requests": re.compile(_REQUESTS, re.IGNORECASE),
}
_ANYWHERE = ("close", "refers")
_OFFERS = re.compile(_MORE, re.IGNORECASE)
_ENDS = re.compile(_DONE, re.IGNORECASE)
_OPENING, _ENDING = 90, 140
"""A cue for another topic stands at the beginning of what is said; an offer of more, at the end."""


def cues_in(text: str) -> dict[str, str]:
    """Return the cues in what somebody says, each with the words that it was seen by."""
    found = {}
    for name, pattern in _SETS.items():
        where = text if name in _ANYWHERE else text[:_OPENING]
        match = pattern.search(where.strip())
        if match is not None:
            found[name] = match.group().strip()
    return found


def reply_act(text: str) -> str:
    """Return what an answer does last: it "asks" something back, it "ends" a matter, or neither."""
    ending = text.rstrip()[-_ENDING:]
    if _OFFERS.search(ending):
        return "ends"
    if ending.endswith("?"):
        return "asks"
    return "ends" if _ENDS.search(ending) else ""


def introduced(text: str) -> list[list[str]]:
    """Return the words of each thing that is spoken of as new: "a hotel", "my knee"."""
    return [content_words(found[1]) for found in _INTRODUCED.finditer(text[: 2 * _OPENING])]
