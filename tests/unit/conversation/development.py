"""The dialogues that the rules for topics and references were written with.

A line is who speaks, the topic, and what is said. References name the message, the phrase, and what
it means there. `tests/dialogues` is another set, which the rules have not seen.
"""

from __future__ import annotations

from typing import NamedTuple

from otolith.conversation.message import Message, Role, Text, ToolCall, ToolResult


class Asked(NamedTuple):
    """A phrase in a message, and what it means; several things are separated by a bar."""

    at: int
    phrase: str
    meaning: str


class Dialogue(NamedTuple):
    """A dialogue with its topics and references."""

    name: str
    messages: list[Message]
    topics: list[str]
    asked: list[Asked]


def dialogue(name: str, script: str, *asked: tuple[int, str, str]) -> Dialogue:
    messages: list[Message] = []
    topics: list[str] = []
    for block in script.strip().split("\n\n"):
        head, _, text = block.partition(": ")
        role, _, topic = head.partition(" ")
        messages.append(_message(role, text, len(messages)))
        topics.append(topic)
    return Dialogue(name, messages, topics, [Asked(*each) for each in asked])


def _message(role: str, text: str, at: int) -> Message:
    if role == "call":
        return Message(Role.ASSISTANT, (ToolCall(f"c{at}", text),))
    if role == "tool":
        return Message(Role.TOOL, (ToolResult(f"c{at - 1}", text),))
    return Message({"u": Role.USER, "a": Role.ASSISTANT}[role], (Text(text),))


TRIP = dialogue(
    "trip",
    """
u flight: Find me a flight from Berlin to New York next Tuesday.

call flight: search_flights

tool flight: {"flights": [{"flight": "DL 47", "price": 640, "departure": "10:15", "stops": 0}, \
{"flight": "LH 400", "price": 512, "departure": "13:40", "stops": 0}, {"flight": "BA 117", \
"price": 455, "departure": "07:05", "stops": 1}]}

a flight: I found three flights: DL 47 for 640 euros, LH 400 for 512 euros and BA 117 for 455 euros.

u flight: Is the second one direct?

a flight: Yes, LH 400 is nonstop.

u flight: Great, reserve an aisle seat on it.

a flight: Done. Your seat is 23C.

u hotel: By the way, I also need somewhere to sleep. Any hotels close to Central Park?

a hotel: These are close:
1. Park Lane - $310, 0.1 km
2. The Wellington - $190, 0.5 km
3. Hotel Beacon - $240, 1.4 km

u hotel: Does the cheapest one have breakfast?

a hotel: The Wellington serves breakfast until 11.

u hotel: Book it for three nights.

a hotel: The Wellington is booked for three nights.

u flight: Back to the flight, can I still change the seat to a window?

a flight: Yes, 23A is free.
""",
    (4, "the second one", "LH 400"),
    (6, "it", "LH 400"),
    (10, "the cheapest one", "The Wellington"),
    (12, "it", "The Wellington"),
    (14, "the flight", "LH 400"),
)

CODE = dialogue(
    "code",
    """
u tests: The test in test_parser.py fails since yesterday. Can you look at it?

a tests: test_parser.py fails because parse_date returns None for an empty string. The bug is in \
dates.py.

u tests: Open that file and fix the function.

a tests: I changed dates.py. The function raises ValueError now.

u tests: Did that break anything else?

a tests: No, all 214 tests pass.

u deploy: How do I roll out version 2.3 to the staging server?

a deploy: Run `make deploy ENV=staging`. It pulls the container from the registry and restarts \
the service.

u deploy: How long does it take?

a deploy: About four minutes. Kubernetes waits for the health check.

u mail: Another thing: Maria asked for a summary of the sprint. Draft an email to her.

a mail: Subject: Sprint summary. Hi Maria, this sprint we fixed the date parser and prepared the \
2.3 release.

u mail: Make it shorter and copy Jonas.

a mail: Done, Jonas is in copy. Should I send the email now?

u mail: Yes, and remind him about the retro on Friday.

a mail: Sent, with a reminder for Friday.

u tests: One more question about the parser test: does it cover leap years?

a tests: No, there is no case for February 29 in test_parser.py.
""",
    (0, "it", "test"),
    (2, "that file", "dates.py"),
    (10, "her", "Maria"),
    (12, "it", "email"),
    (14, "him", "Jonas"),
)

RECIPE = dialogue(
    "recipe",
    """
u dinner: I have chicken, rice and spinach. What can I cook tonight?

a dinner: You could make:
- Chicken biryani (50 minutes)
- Spinach risotto (35 minutes)
- Fried rice with chicken (20 minutes)

u dinner: The fastest one please. How much garlic does it need?

a dinner: Fried rice needs two cloves of garlic.

u dinner: And without soy sauce?

a dinner: Use salt and a little fish sauce instead.

u bike: My bicycle has a flat tyre. How do I patch the tube?

a bike: Remove the wheel, take the tube out, roughen the spot, apply glue and press the patch on \
for two minutes.

u bike: Where do I get a patch kit on a Sunday?

a bike: Many petrol stations sell one. The bike shop at the central station is open as well.

u bike: What does it cost?

a bike: Around 6 euros.

u dinner: OK, so for the fried rice, should I use fresh or old rice?

a dinner: Old rice from the day before is best, because it is dry.
""",
    (2, "The fastest one", "Fried rice with chicken"),
    (2, "it", "Fried rice with chicken"),
    (10, "it", "patch kit"),
    (12, "the fried rice", "Fried rice with chicken"),
)

PEOPLE = dialogue(
    "people",
    """
u party: I am planning a birthday party for my sister Julia. She turns 30 in June.

a party: How nice! How many guests will come?

u party: About twenty. My brother Tim wants to bake the cake, but he has never done it before.

a party: A sponge cake is easy. Tim could try the recipe on a weekend before.

u party: Good idea, I will tell him. What could I give her?

a party: Perhaps a concert ticket, a weekend trip or a cooking class.

u party: She would love the last one. Tim and Laura could join her.

a party: A cooking class for three, then. I can look for dates.

u tax: Different topic: when is the deadline for my tax return?

a tax: In Germany it is July 31, and you can ask for an extension.

u tax: Which documents do I need for it?

a tax: Your wage statement, receipts for work expenses and the statement of your bank.

u tax: Where do I download the wage statement?

a tax: Usually from the portal of your employer.

u party: Let's go back to the party. Can they come at six?

a party: Yes, six works for Tim and Laura.
""",
    (4, "him", "Tim"),
    (4, "her", "Julia"),
    (6, "the last one", "cooking class"),
    (14, "they", "Tim|Laura"),
)

REISE = dialogue(
    "reise",
    """
u zug: Ich suche einen Zug von Köln nach Hamburg am Freitag.

a zug: Diese Verbindungen gibt es:
1. ICE 612, ab 08:10, 59,90 €
2. IC 2310, ab 09:46, 34,90 €
3. ICE 616, ab 10:10, 79,90 €

u zug: Wie lange braucht der zweite?

a zug: Der IC 2310 braucht 4 Stunden und 10 Minuten.

u zug: Und der früheste?

a zug: Der ICE 612 ist um 12:05 in Hamburg.

u zug: Dann buche ihn bitte mit Sitzplatz.

a zug: Gebucht. Der Sitzplatz ist in Wagen 7.

u rezept: Übrigens, hast du ein Rezept für Linsensuppe?

a rezept: Ja: Zwiebeln und Karotten anbraten, Linsen und Brühe dazu, 25 Minuten kochen.

u rezept: Kann ich sie auch einfrieren?

a rezept: Die Suppe hält im Gefrierfach drei Monate.

u rezept: Welche Gewürze passen dazu?

a rezept: Kreuzkümmel, Paprika und ein wenig Essig.

u zug: Nochmal zum Zug: Kann ich die Fahrkarte stornieren?

a zug: Ja, bis einen Tag vorher kostenlos.
""",
    (2, "der zweite", "IC 2310"),
    (4, "der früheste", "ICE 612"),
    (6, "ihn", "ICE 612"),
    (10, "sie", "Linsensuppe"),
)

BUERO = dialogue(
    "büro",
    """
u bericht: Öffne die Datei quartal.xlsx und fass sie zusammen.

a bericht: Die Datei quartal.xlsx hat drei Tabellen. Der Umsatz ist um 8 % gestiegen.

u bericht: Schick die Zusammenfassung an Frau Berger.

a bericht: Ich habe Frau Berger die Zusammenfassung geschickt.

u bericht: Hat sie schon geantwortet?

a bericht: Noch nicht. Sie ist bis Montag im Urlaub.

u drucker: Mein Drucker zeigt einen Papierstau an, aber ich sehe kein Papier. Was kann ich tun?

a drucker: Schalte ihn aus, öffne die hintere Klappe und entferne kleine Papierreste an den Walzen.

u drucker: Die Klappe klemmt.

a drucker: Dann zieh zuerst das Papierfach heraus und drücke den Hebel links.

u drucker: Super, jetzt läuft er wieder.

a drucker: Sehr gut!

u umzug: Andere Frage: Welche Umzugsfirmen kannst du in Leipzig empfehlen?

a umzug: - Möbelblitz, 480 €
- Leipziger Packer, 650 €
- Umzug Krause, 520 €

u umzug: Die günstigste bitte. Wann hat die Firma Zeit?

a umzug: Möbelblitz hat am 14. Mai einen Termin frei.
""",
    (0, "sie", "quartal.xlsx"),
    (4, "sie", "Frau Berger"),
    (10, "er", "Drucker"),
    (14, "Die günstigste", "Möbelblitz"),
    (14, "die Firma", "Möbelblitz"),
)

SHOP = dialogue(
    "shop",
    """
u laptop: I want a light laptop for under 1200 euros.

a laptop: Two models fit: the Aero 14 weighs 1.1 kg and costs 1099 euros, the Nova X weighs 1.3 \
kg and costs 949 euros.

u laptop: What is the battery life of the former?

a laptop: The Aero 14 lasts about 14 hours.

u laptop: And the other one?

a laptop: The Nova X lasts 10 hours.

u laptop: I will take the Nova X then. Does it come with a warranty?

a laptop: It has two years of warranty.

u garden: When should I plant tomatoes on my balcony?

a garden: After the middle of May, when the nights are warm enough.

u garden: How often do I water them?

a garden: Every day in summer, in the morning.

u garden: Thanks, that's all for today.

a garden: You are welcome!
""",
    (2, "the former", "Aero 14"),
    (4, "the other one", "Nova X"),
    (6, "it", "Nova X"),
    (10, "them", "tomatoes"),
)

FLATS = dialogue(
    "flats",
    """
u flat: I am looking for a two-room flat in Hamburg, at most 1100 euros.

call flat: find_flats

tool flat: Eimsbüttel, Osterstraße 12; 58 m2; 1050 EUR; balcony
Altona, Bahrenfelder Straße 80; 51 m2; 890 EUR; no balcony
Barmbek, Fuhlsbüttler Straße 7; 62 m2; 990 EUR; balcony

a flat: I found three: one in Eimsbüttel for 1050 euros, one in Altona for 890 euros and one in \
Barmbek for 990 euros. Two of them have a balcony.

u flat: How big is the last one?

a flat: The flat in Barmbek has 62 square metres.

u flat: And the cheapest?

a flat: Altona is the cheapest, with 51 square metres.

u flat: I need a balcony, so I would rather see the first one. Can we visit it on Saturday?

a flat: Yes, there is a viewing on Saturday at eleven.

u flat: My girlfriend wants to come along. Does she need to bring anything?

a flat: An identity card and proof of income are enough.

u flat: She will bring them. What about my landlord, when do I have to tell him?

a flat: Your notice period is three months, so he should hear from you by the end of the month.
""",
    (4, "the last one", "Barmbek"),
    (6, "the cheapest", "Altona"),
    (8, "the first one", "Eimsbüttel"),
    (8, "it", "Eimsbüttel"),
    (10, "she", "girlfriend"),
    (12, "him", "landlord"),
)

BOOKS = dialogue(
    "books",
    """
u books: I just finished "The Left Hand of Darkness" and loved it. What should I read next?

a books: If you liked the slow diplomacy, try "A Memory Called Empire". For another Le Guin, \
"The Dispossessed" is the obvious choice.

u books: Is the first one a standalone?

a books: It is the first of two, but the story is complete.

u books: And the second?

a books: "The Dispossessed" stands alone. It is set in the same universe.

u books: I think I will start with that one. How long is it?

a books: Around 340 pages, depending on the edition.

u books: My sister read it at school and hated it. She prefers crime novels.

a books: Then she might like Tana French. Her first novel, "In the Woods", is set in Dublin.

u books: I will tell her about it.

a books: Let me know what she thinks.

u knee: Something else. My knee hurts when I run downhill. Should I stop?

a knee: Pain below the kneecap is often an overload of the tendon. Cut the distance by half for \
two weeks and do slow squats.

u knee: How many of those?

a knee: Three sets of fifteen, every other day.

u knee: And if it does not get better?

a knee: Then see a physiotherapist. They can check your hip and your shoes too.

u books: Fine. Going back to the novel, is there an audiobook?

a books: Yes, "The Dispossessed" is read by Don Leslie.
""",
    (0, "it", "The Left Hand of Darkness"),
    (2, "the first one", "A Memory Called Empire"),
    (4, "the second", "The Dispossessed"),
    (6, "it", "The Dispossessed"),
    (8, "She", "sister"),
    (10, "her", "sister"),
    (16, "it", "knee"),
)

PLANTS = dialogue(
    "plants",
    """
u plant: The leaves of my monstera are turning yellow. What is wrong with it?

a plant: Usually that is too much water. Let the soil dry out before you water it again.

u plant: I water it every three days.

a plant: That is a lot. Once a week is enough, and the pot needs a hole.

u plant: The pot has none. Should I repot it now?

a plant: Yes, spring is a good time. Take a pot that is a little bigger.

u plant: OK. I also have two ferns in the bathroom. Do they need the same?

a plant: Ferns like it moist, so keep watering them.

u plant: Good, because they look great.

a plant: Bathrooms are perfect for them.

u car: Hey, different question. My car makes a grinding noise when I brake, is it dangerous?

a car: It may be the brake pads. If they are worn, the metal touches the disc, so have it \
checked this week.

u car: What would new pads cost?

a car: About 150 to 250 euros per axle at an independent garage.

u car: The garage around the corner is run by a guy called Murat. He did my tyres last year.

a car: Then ask him for an offer, and let him look at the discs as well.

u car: I will call him tomorrow.

a car: Good plan.
""",
    (0, "it", "monstera"),
    (2, "it", "monstera"),
    (4, "The pot", "pot"),
    (4, "it", "monstera"),
    (6, "they", "ferns"),
    (14, "He", "Murat"),
    (16, "him", "Murat"),
)

FILME = dialogue(
    "filme",
    """
u film: Welchen Film soll ich heute Abend schauen? Ich mag ruhige Science-Fiction.

a film: Drei Vorschläge: "Arrival" (2016, 116 Minuten), "Moon" (2009, 97 Minuten) oder "Her" \
(2013, 126 Minuten).

u film: Worum geht es im ersten?

a film: In "Arrival" versucht eine Sprachforscherin, mit Außerirdischen zu reden.

u film: Und welcher ist der kürzeste?

a film: "Moon" mit 97 Minuten.

u film: Den nehme ich. Wo kann ich ihn sehen?

a film: Du kannst ihn bei den üblichen Anbietern für 3,99 Euro leihen.

u film: Meine Freundin Clara kommt auch. Sie mag keine traurigen Filme.

a film: "Moon" ist melancholisch, aber nicht hoffnungslos.

u film: Gut, dann frage ich sie.

a film: Viel Spaß euch beiden!

u steuer: Noch eine Frage: Kann ich meinen neuen Schreibtisch von der Steuer absetzen?

a steuer: Ja, wenn du ihn überwiegend beruflich nutzt. Heb die Rechnung auf.

u steuer: Er hat 420 Euro gekostet. Muss ich ihn abschreiben?

a steuer: Nein, bis 800 Euro netto darfst du ihn sofort absetzen.
""",
    (2, "ersten", "Arrival"),
    (4, "der kürzeste", "Moon"),
    (6, "ihn", "Moon"),
    (8, "Sie", "Clara"),
    (10, "sie", "Clara"),
    (14, "Er", "Schreibtisch"),
)

OPS = dialogue(
    "ops",
    """
u alert: We got an alert from the payments service at 03:12. Can you check what happened?

call alert: get_logs

tool alert: 03:11:58 payments-api  WARN  pool exhausted
03:12:04 payments-api  ERROR timeout after 30s calling ledger
03:12:09 ledger        ERROR disk full on /var/data

a alert: The ledger ran out of disk space, so payments-api timed out. The volume is /var/data.

u alert: Can you grow it?

a alert: I can extend the volume by 50 GB. Should I do that now?

u alert: Yes please, and restart the service afterwards.

a alert: Done, the ledger is up and the queue is empty.

u alert: Who was on call last night?

a alert: Priya was on call, but the page went to Marek.

u alert: Tell her that the routing is wrong, and ask him to fix it.

a alert: I sent both of them a message.

u hiring: Good. On another note, how many candidates did we get for the SRE role?

a hiring: Seven applied. Three passed the first screen: Ines Moreau, Tomasz Zielinski and Farah \
Haddad.

u hiring: Schedule an interview with the second one.

a hiring: Tomasz Zielinski is free on Thursday at two.

u hiring: And the other two?

a hiring: Ines Moreau can come on Friday, and Farah Haddad on Monday.
""",
    (4, "it", "volume"),
    (10, "her", "Priya"),
    (10, "him", "Marek"),
    (14, "the second one", "Tomasz Zielinski"),
    (16, "the other two", "Ines Moreau|Farah Haddad"),
)

DIALOGUES = [TRIP, CODE, RECIPE, PEOPLE, REISE, BUERO, SHOP, FLATS, BOOKS, PLANTS, FILME, OPS]
