"""What nouns and names stand for: persons and their gender, places, files, and German genders."""

from __future__ import annotations

from functools import lru_cache

from otolith.text.words import stem


def _stems(text: str) -> frozenset[str]:
    return frozenset(map(stem, text.split()))


def _lower(text: str) -> frozenset[str]:
    return frozenset(text.lower().split())


MEN = _lower("""
adam ahmed alan albert alex alexander ali anders andreas andrew anthony antonio arthur ben
benjamin bernd bob brian bruno carl carlos charles charlie chris christian christopher claus
daniel david dennis dieter dirk dominik edward elias emil enrico eric erik ethan fabian felix finn
florian frank franz fred friedrich fritz gary georg george gerhard giovanni greg gustav hans
harald harry hassan heinrich heinz helmut henry herbert hiroshi holger hugo ian igor ivan jack
jacob jakob james jan jason jeff jens jim joe johann johannes john jonas jonathan jorge jose josef
joseph juan julian jürgen karl karsten kenji kevin klaus konrad kurt lars leo leon liam lorenz
louis luca lucas luis lukas manfred marc marco marcus mario mark markus martin mateo matthew
matthias max maximilian michael miguel mike mohammed moritz nathan nick nico niklas noah norbert
oliver omar oscar otto owen pablo patrick paul pedro peter philip philipp pierre rafael rainer
ralf raj ravi richard rob robert roland ron rudolf ryan sam samuel scott sean sebastian sergio
simon stefan stephan stephen steve steven sven theo thomas thorsten till tim timo tobias tom tony
torsten udo uwe viktor vincent volker walter werner wilhelm will william wolfgang yusuf
""")

WOMEN = _lower("""
aisha alice alina amanda amelia amy ana andrea angela anita anja anke anna anne annette annika
antonia astrid barbara beate beatrice bettina birgit brigitte britta camila carla carmen carol
caroline catherine charlotte chiara chloe christa christina christine clara claudia cornelia
daniela deborah diana doris dorothea edith elena elisabeth elizabeth ella ellen elsa emily emma
erika esther eva fatima fiona franziska frieda gabriele gabi giulia grace greta hanna hannah heike
helen helena helga hilde ida ines inga ingrid irene iris isabel isabella jana jane janine jennifer
jessica johanna julia juliane jutta karen karin karla katharina kathrin katie katja katrin kerstin
kirsten klara lara laura lea lena leonie leyla lila lily linda lisa lucia lucy luisa magdalena
maja mandy manuela mara margaret maria marie marina marion marlene martha martina mary maya
melanie mei mia michaela mila miriam monica monika nadia nadine nancy natalie nicole nina nora
olga olivia patricia paula petra pia priya rachel rebecca regina renate rita rosa ruth sabine
sandra sara sarah silke silvia simone sofia sonja sophia sophie stefanie stella stephanie steffi
susan susanne svenja sylvia tanja tatjana theresa tina ulrike ursula uta ute valentina vanessa
vera veronika victoria yasmin yuki yvonne zoe
""")

TITLES = {"mr": "m", "herr": "m", "herrn": "m", "mrs": "f", "ms": "f", "miss": "f", "frau": "f"}
OTHER_TITLES = _lower("dr prof professor doctor sir madam")

ROLES_M = _stems("""
brother father dad uncle grandfather grandpa husband boyfriend son nephew man boy guy king bruder
vater papa onkel opa großvater mann ehemann freund sohn neffe junge chef kollege arzt vermieter
nachbar kunde lehrer mitarbeiter berater
""")
ROLES_F = _stems("""
sister mother mom mum aunt grandmother grandma wife girlfriend daughter niece woman girl lady
queen schwester mutter mama tante oma großmutter frau ehefrau freundin tochter nichte chefin
kollegin ärztin vermieterin nachbarin kundin lehrerin mitarbeiterin beraterin
""")
ROLES = (
    ROLES_M
    | ROLES_F
    | _stems("""
person friend colleague boss manager doctor dentist teacher client customer landlord landlady
neighbour neighbor lawyer partner coworker employee assistant engineer developer designer
contractor plumber guest kid child baby cousin student author user ceo cto director coach trainer
nurse agent host candidate people anybody kind leute mensch gast kandidat
""")
)

PLACE_NOUNS = _stems("""
hotel hostel restaurant cafe café bar pub museum station airport city town village country street
road square park beach office room house flat apartment building shop store supermarket school
university hospital church theatre theater cinema gym library bank market island lake river
mountain place location venue district neighbourhood neighborhood airbnb stadt dorf land straße
platz strand büro zimmer haus wohnung gebäude laden geschäft schule universität krankenhaus kirche
kino bibliothek markt insel see fluss berg ort bahnhof flughafen kneipe lokal ferienwohnung
pension viertel
""")

FILE_NOUNS = _stems("""
file document report script spreadsheet pdf image picture photo attachment config log notebook
presentation datei dokument bericht skript tabelle bild foto anhang protokoll
""")

CITIES = _lower("""
amsterdam ankara athen athens atlanta auckland austin bangkok barcelona basel beijing belgrade
bergen berlin bern bilbao bogota bologna bonn bordeaux boston bremen brighton bristol brüssel
brussels budapest cairo cambridge chicago copenhagen dallas delhi denver detroit dortmund dresden
dubai dublin düsseldorf edinburgh essen florence florenz frankfurt freiburg geneva genf genoa
glasgow graz göteborg hamburg hannover heidelberg helsinki houston innsbruck istanbul jakarta
kairo karlsruhe kiel köln kopenhagen krakau krakow kyoto lausanne leeds leipzig lima linz lisbon
lissabon liverpool ljubljana london lyon madrid mailand mainz malaga manchester mannheim marrakech
marseille melbourne miami milan minsk montreal moscow moskau mumbai munich münchen nairobi naples
neapel nice nizza nyc nürnberg oslo osaka oxford palermo palma paris philadelphia phoenix pisa
porto potsdam prag prague reykjavik riga rio rom rome rostock rotterdam salzburg seattle seoul
sevilla seville shanghai singapore sofia stockholm strasbourg stuttgart sydney tallinn tokyo
toronto toulouse turin ulm valencia vancouver venedig venice verona vienna vilnius warsaw warschau
washington weimar wien zagreb zürich zurich england france frankreich germany deutschland italy
italien spain spanien portugal austria österreich switzerland schweiz greece griechenland turkey
türkei poland polen norway norwegen sweden schweden denmark dänemark finland finnland iceland
island ireland irland scotland schottland japan china india indien canada kanada mexico mexiko
brazil brasilien usa europe europa asia asien africa afrika america amerika bavaria bayern tuscany
toskana sicily sizilien crete kreta mallorca
""")

_M = """
flug zug bus wagen tag termin preis ort tisch stuhl kaffee tee urlaub plan bericht vertrag brief
anhang code fehler test rechner computer laptop drucker bildschirm schlüssel koffer sitz platz
bahnhof flughafen strand film kurs server ordner name titel betrag garten schrank kuchen salat
wein vorschlag anbieter tarif hafen raum monat sommer winter vormittag nachmittag abend morgen
januar februar märz april mai juni juli august september oktober november dezember montag dienstag
mittwoch donnerstag freitag samstag sonntag link ansatz parser fisch käse reis apfel rucksack
mantel schuh hund artikel absatz punkt eintrag schritt auftrag roman kunde
"""
_F = """
stadt straße wohnung rechnung datei tabelle liste mail nachricht frage antwort buchung
reservierung verbindung reise fahrt bahn karte idee option funktion klasse variable datenbank
version lösung adresse nummer woche stunde minute uhr zeit firma bank küche tasche jacke hose
lampe kamera maschine schule kirche insel pizza suppe soße milch butter versicherung präsentation
besprechung sitzung aufgabe seite zeile spalte methode bestellung lieferung app pension kreuzfahrt
fähre katze uni serie folge geschichte musik wanderung tour route
"""
_N = """
hotel zimmer haus auto rad fahrrad buch restaurant museum ticket angebot dokument bild foto skript
programm projekt meeting treffen problem ergebnis konto geld paket geschenk essen frühstück
abendessen mittagessen rezept kleid hemd handy telefon gerät büro land dorf konzert theater kino
spiel video lied album passwort system modul paket formular gehalt wetter wochenende jahr event
feld modell kind mädchen boot schiff brot gemüse fleisch ei
"""

GERMAN_M, GERMAN_F, GERMAN_N = map(_stems, (_M, _F, _N))
SINGULAR = frozenset((_M + _F + _N).split())

_ENDINGS = {
    "f": ("ung", "heit", "keit", "schaft", "tion", "tat", "ik", "ei", "enz", "anz", "ur"),
    "n": ("chen", "lein", "ment", "um", "tum"),
    "m": ("ling", "ismus", "or", "er"),
}


def noun_type(head: str) -> str:
    """Return what a noun stands for, by its stem."""
    if head in ROLES:
        return "person"
    if head in FILE_NOUNS:
        return "file"
    return "place" if head in PLACE_NOUNS else "thing"


def noun_gender(head: str) -> str | None:
    """Return whether a person is a man or a woman, by what it is called."""
    return "m" if head in ROLES_M else "f" if head in ROLES_F else None


@lru_cache(maxsize=4096)
def german_gender(word: str) -> str | None:
    """Return the grammatical gender of a German noun: that of its last part, or of its ending."""
    head = stem(word)
    for gender, nouns in (("m", GERMAN_M), ("f", GERMAN_F), ("n", GERMAN_N)):
        if head in nouns:
            return gender
    if head in ROLES_M or head in ROLES_F:
        return noun_gender(head)
    longest = [
        (len(noun), gender)
        for gender, nouns in (("m", GERMAN_M), ("f", GERMAN_F), ("n", GERMAN_N))
        for noun in nouns
        if len(noun) > 2 and head.endswith(noun)
    ]
    if longest:
        return max(longest)[1]
    for gender, endings in _ENDINGS.items():
        if head.endswith(endings):
            return gender
    return "f" if word.lower().endswith("e") else None


@lru_cache(maxsize=4096)
def is_german_noun(word: str) -> bool:
    """Tell whether a word is a German noun that is known, or ends in one."""
    head = stem(word)
    known = GERMAN_M | GERMAN_F | GERMAN_N | ROLES | PLACE_NOUNS | FILE_NOUNS
    return head in known or any(len(noun) > 3 and head.endswith(noun) for noun in known)


@lru_cache(maxsize=4096)
def german_number(word: str) -> str:
    """Return whether a German noun is singular or plural, where that can be seen."""
    lower, head = word.lower(), stem(word)
    if lower in SINGULAR or lower.endswith(tuple(each for each in SINGULAR if len(each) > 3)):
        return "singular"
    if head in GERMAN_M | GERMAN_F | GERMAN_N or lower.endswith(_PLURAL):
        return "plural"
    return "singular" if lower.endswith(_SINGULAR) else ""


_PLURAL = ("ungen", "heiten", "keiten", "schaften", "ionen", "täten", "innen")
_SINGULAR = ("ung", "heit", "keit", "schaft", "ion", "tät", "chen")
