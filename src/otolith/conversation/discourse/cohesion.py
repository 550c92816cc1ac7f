"""Fields of meaning: words that come up together, in English and German.

"Seat" and "airline" share no letters, but whoever speaks of one is probably still at the other. A
word may be in several fields. German compounds are taken by their parts.
"""

from __future__ import annotations

from functools import lru_cache

from otolith.agent.conversation.entities import stem

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
