"""How much two stretches of a conversation have in common: words, and fields of meaning.

Fields of meaning: words that come up together, in English and German.

"Seat" and "airline" share no letters, but whoever speaks of one is probably still at the other. A
word may be in several fields. German compounds are taken by their parts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from otolith.text.lexicon import word_set
from otolith.text.words import content_words, stem, words_in

_FIELDS = {
    "flight": """
        flight fly airline airport plane seat aisle window boarding layover nonstop luggage
        baggage gate departure arrival delta lufthansa ryanair united carrier ticket fare flug
        fliegen fluggesellschaft flughafen flugzeug sitzplatz gangplatz fensterplatz umstieg
        gepäck koffer handgepäck abflug ankunft
    """,
    "lodging": """
        hotel hostel room airbnb breakfast checkin checkout suite lodging stay bed pool lobby
        reception night nights zimmer unterkunft frühstück übernachtung übernachten bett
        ferienwohnung pension einzelzimmer doppelzimmer nacht nächte
    """,
    "rail": """
        train railway rail platform ice station bahn zug gleis bahnhof bahncard abteil wagen
        fahrkarte verbindung umsteigen
    """,
    "car": """
        car rental drive driver mileage fuel gas petrol diesel electric engine tyre tire brake
        garage mechanic parking auto wagen mietwagen benzin reifen bremse werkstatt parken motor
        tüv ölwechsel inspektion
    """,
    "trip": """
        trip travel vacation holiday itinerary tour sightseeing visa passport tourist beach hike
        museum reise urlaub ausflug visum reisepass strand wanderung wandern sehenswürdigkeit
    """,
    "food": """
        recipe cook bake dinner lunch meal dish ingredient oven flour sugar butter egg cheese
        pasta sauce tomato onion garlic chicken beef fish rice vegetable salad soup dessert cake
        bread vegan vegetarian spice salt taste kitchen rezept kochen backen abendessen
        mittagessen gericht zutat ofen mehl zucker ei käse nudeln soße tomate zwiebel knoblauch
        hähnchen fleisch fisch reis gemüse salat suppe kuchen brot gewürz salz küche teig
    """,
    "dining": """
        restaurant table reservation menu waiter cuisine bistro cafe bar tisch reservierung
        speisekarte kellner lokal kneipe
    """,
    "code": """
        code function bug error test tests python javascript java rust class method variable
        exception traceback stack compile debug refactor repository git commit branch merge pull
        module import library package api endpoint json script program loop array string integer
        parse syntax lint unittest pytest parser funktion fehler klasse methode fehlermeldung
        bibliothek paket schnittstelle programm skript debuggen
    """,
    "ops": """
        server deploy deployment docker container kubernetes staging production release version
        rollout rollback ci pipeline cluster monitoring uptime domain dns certificate cloud aws
        veröffentlichen ausrollen bereitstellen
    """,
    "data": """
        data dataset dataframe csv column row table query sql database index chart plot graph
        average mean median sum statistic regression model spreadsheet excel pivot schema daten
        datensatz spalte zeile tabelle abfrage datenbank diagramm durchschnitt mittelwert summe
        statistik modell
    """,
    "file": """
        file folder document pdf report upload download backup rename directory datei ordner
        dokument bericht hochladen
    """,
    "mail": """
        email mail inbox message reply subject recipient attachment newsletter spam nachricht
        postfach betreff anhang empfänger
    """,
    "calendar": """
        meeting calendar appointment schedule agenda invite reschedule slot reminder standup
        deadline termin kalender besprechung treffen einladung verschieben erinnerung frist
        sitzung
    """,
    "money": """
        budget price cost pay payment invoice bank account loan interest tax salary refund credit
        debit transfer insurance expense savings stock fund euro dollar preis kosten zahlen
        zahlung rechnung konto kredit zinsen steuer gehalt erstattung überweisung versicherung
        ausgabe aktie fonds steuererklärung
    """,
    "health": """
        doctor pain headache medicine pill symptom fever cold cough sleep diet workout exercise
        gym running knee therapy dentist vitamin allergy blood arzt schmerz kopfschmerzen
        medikament tablette symptom fieber erkältung husten schlaf schlafen ernährung training
        sport laufen knie therapie zahnarzt rücken
    """,
    "weather": """
        weather rain sun snow forecast temperature degrees wind storm umbrella cloudy wetter regen
        sonne schnee wind vorhersage grad
    """,
    "home": """
        house flat apartment rent landlord furniture sofa lamp paint wall roof kitchen bathroom
        plumber leak heating garden plant lawn haus wohnung miete vermieter möbel lampe streichen
        wand dach bad klempner heizung garten pflanze rasen umzug gießen tomaten balkon
    """,
    "study": """
        exam homework essay thesis university course lecture teacher student school grade learn
        study vocabulary grammar language prüfung hausaufgabe aufsatz universität kurs vorlesung
        lehrer schule note lernen vokabel grammatik sprache
    """,
    "job": """
        job interview resume cv application employer salary colleague boss project team client
        manager promotion contract hiring bewerbung lebenslauf vorstellungsgespräch arbeitgeber
        kollege chef projekt team kunde beförderung vertrag stelle
    """,
    "shopping": """
        order buy shop shipping delivery package return size colour color discount coupon cart
        laptop phone headphones camera shoes jacket dress warranty bestellen kaufen versand
        lieferung paket rücksendung größe farbe rabatt gutschein kopfhörer kamera schuhe jacke
        kleid garantie bestellung
    """,
    "media": """
        movie film series book novel author song music album band concert game podcast actor
        director episode buch roman autor lied musik konzert spiel serie folge schauspieler
        regisseur kino playlist
    """,
    "family": """
        birthday gift present party wedding mother father sister brother kid kids child daughter
        son grandma friend anniversary geburtstag geschenk feier hochzeit mutter vater schwester
        bruder kind kinder tochter sohn oma opa freundin
    """,
    "pet": """
        dog cat pet vet puppy kitten leash hund katze haustier tierarzt welpe leine futter
    """,
    "device": """
        laptop computer printer router wifi network password login screen keyboard battery phone
        app update install windows mac linux bluetooth rechner drucker netzwerk wlan passwort
        anmelden bildschirm tastatur akku handy aktualisieren
    """,
    "law": """
        contract lawyer court visa permit notice clause lease vertrag anwalt gericht genehmigung
        kündigung klausel mietvertrag
    """,
}  # fmt: skip

_OF: dict[str, frozenset[str]] = {}
for _name, _words in _FIELDS.items():
    for _word in _words.split():
        _OF[stem(_word)] = _OF.get(stem(_word), frozenset()) | {_name}
_LONG = sorted((word for word in _OF if len(word) >= 4), key=len, reverse=True)


@lru_cache(maxsize=16_384)
def fields_of(word: str) -> frozenset[str]:
    """Return the fields that a stem belongs to."""
    found = _OF.get(word)
    if found is not None:
        return found
    if len(word) < 8:
        return frozenset()
    part = next((each for each in _LONG if word.startswith(each) or word.endswith(each)), None)
    return frozenset() if part is None else _OF[part]


_SAYS_NOTHING = frozenset(
    map(
        stem,
        word_set("""
        good great nice fine perfect correct right sounds yes yeah thanks bunch okay sure awesome
        cool wonderful lovely excellent works everything needed wait love prefer gut toll super
        prima perfekt richtig klingt danke passt
        price cost address phone number total rating name location long much time date preis kosten
        kostet adresse telefon telefonnummer nummer bewertung uhrzeit dauert
        """),
    )
)
"""Words of agreement, and of what anything may have, like a price: they belong to every topic."""
_REPLY = 0.4
"""What a word counts that only the answer has."""
_SPECIFIC = 4
_FADING = 0.8
"""What is left of how much a field counts, with each turn."""


@dataclass(slots=True)
class Vocabulary:
    """The words of a topic or a turn, with how much each counts."""

    words: Counter[str] = field(default_factory=Counter)
    fields: dict[str, float] = field(default_factory=dict)

    def take(self, other: Vocabulary) -> None:
        """Add what a turn says."""
        self.words.update(other.words)
        for name in self.fields:
            self.fields[name] *= _FADING
        for name, weight in other.fields.items():
            self.fields[name] = self.fields.get(name, 0.0) + weight


class Rarity:
    """How rare words are in a conversation: those in every turn say nothing about the topic."""

    def __init__(self) -> None:
        self._turns = 0
        self._counts: Counter[str] = Counter()
        self._surfaces: dict[str, Counter[str]] = {}

    def take(self, words: Iterable[str]) -> None:
        """Count the words of a turn."""
        self._turns += 1
        self._counts.update(set(words))

    def see(self, text: str) -> None:
        """Remember how words are written."""
        for word in words_in(text):
            self._surfaces.setdefault(stem(word.text), Counter())[word.text] += 1

    def weight(self, word: str) -> float:
        """Return how much a word says."""
        rare = math.log(1 + (self._turns + 2) / (self._counts[word] + 1))
        length = min(len(word), 2 * _SPECIFIC) / _SPECIFIC
        return rare * (0.4 if word.isdigit() else 0.6 + 0.4 * length)

    def surface(self, word: str) -> str:
        """Return how a word is mostly written."""
        seen = self._surfaces.get(word)
        return max(seen.items(), key=lambda each: (each[1], each[0]))[0] if seen else word

    def keywords(self, words: Mapping[str, float], most: int) -> tuple[str, ...]:
        """Return the words that say most about a topic."""
        listed = [word for word in words if not word.isdigit() and len(word) > 2]
        listed.sort(key=lambda word: (-words[word] * self.weight(word), word))
        return tuple(self.surface(word) for word in listed[:most])


def vocabulary(text: str, *, weight: float = 1.0) -> Vocabulary:
    """Return the words of a text, and the fields that they are of."""
    words = Counter(word for word in content_words(text) if word not in _SAYS_NOTHING)
    fields: dict[str, float] = {}
    for word, count in words.items():
        names = fields_of(word)
        for name in names:
            fields[name] = fields.get(name, 0.0) + weight * count / len(names)
    weighed: Counter[str] = Counter()
    for word, count in words.items():
        weighed[word] = count * weight  # type: ignore[assignment]  # a Counter counts in parts, too
    return Vocabulary(weighed, fields)


def reply_vocabulary(text: str) -> Vocabulary:
    """Return the words of an answer, which count for less than those of the question."""
    return vocabulary(text, weight=_REPLY)


def shared_words(turn: Vocabulary, topic: Vocabulary, rarity: Rarity) -> tuple[float, list[str]]:
    """Return which part of what a turn says is in a topic, from 0 to 1, and by which words."""
    total = hits = 0.0
    common = []
    for word, count in turn.words.items():
        weight = rarity.weight(word) * min(count, 1.0)
        total += weight
        if word in topic.words:
            hits += weight
            common.append(word)
    return (hits / total if total else 0.0), sorted(common, key=lambda w: -rarity.weight(w))


def shared_fields(turn: Vocabulary, topic: Vocabulary) -> float:
    """Return how alike two stretches are by the fields of their words, from 0 to 1."""
    dot = sum(weight * topic.fields.get(name, 0.0) for name, weight in turn.fields.items())
    sizes = (math.sqrt(sum(w * w for w in each.fields.values())) for each in (turn, topic))
    norm = math.prod(sizes)
    return dot / norm if norm else 0.0
