"""Words by what they do in a sentence: the small ones of English and German, and common verbs.

Whatever is in none of these lists is taken for a noun. That is wrong now and then, and explains
itself: a candidate shows the words that it was found by.
"""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


DETERMINERS = word_set("""
a an the this that these those my your his her its our their some any each every another both all
no which what
""")

NUMBER_WORDS = {
    word: number
    for number, words in {
        1: "one ein eins",
        2: "two zwei beide beiden both",
        3: "three drei",
        4: "four vier",
        5: "five fünf",
        6: "six sechs",
        7: "seven sieben",
        8: "eight acht",
        9: "nine neun",
        10: "ten zehn",
    }.items()
    for word in words.split()
}

PREPOSITIONS = word_set("""
of in on at to from for with without by near about into over under between after before during
since until till through against via per than as like around across behind beside besides beyond
inside outside within toward towards up down off out upon among along onto despite except
regarding
""")

ASIDES = PREPOSITIONS - {"about", "of", "regarding"}
"""What stands after these is spoken of only in passing: a message from Kim, a song on the radio."""

CONJUNCTIONS = word_set(
    "and or but nor so yet if because while when whereas although though unless whether then that"
)

PRONOUNS = word_set("""
i you he she it we they me him us them mine yours hers ours theirs myself yourself himself herself
itself themselves who whom whose which what that this these those there here someone anyone
everyone something anything everything nothing one ones
""")

ADVERBS = word_set("""
not also very really just only even still already again too maybe perhaps please now soon later
today tomorrow yesterday always never often sometimes ever here there how why where when yes no ok
okay well sure thanks thank hello hi hey however therefore instead actually probably quite rather
almost both either neither else more most less least much many few little enough first last next
back away together anyway btw ago once twice yet far long right left directly quickly usually
exactly currently finally oh yup yep yeah nope alright sorry wow hmm nevermind awesome
interesting ahead
""")

VERBS = word_set("""
be am is are was were been being have has had having do does did done doing will would shall
should can could may might must need needs needed want wants wanted let lets make makes made
making get gets got getting give gives gave given take takes took taken find finds found show
shows showed shown tell tells told say says said see sees saw seen look looks looked looking go
goes went gone going come comes came coming know knows knew known think thinks thought try tries
tried use uses used using put puts keep keeps kept leave leaves left call calls called send sends
sent buy buys bought sell sells sold pay pays paid cost costs book books booked reserve check
checks checked compare compares compared choose chose chosen pick picks picked prefer prefers
preferred like likes liked love loves hate hates help helps helped work works worked working run
runs ran running start starts started stop stops stopped begin begins began end ends ended finish
finishes finished open opens opened close closes closed move moves moved turn turns turned read
reads write writes wrote written add adds added remove removes removed delete deletes deleted
change changes changed update updates updated fix fixes fixed create creates created build builds
built install installs installed ask asks asked answer answers answered remind reminds explain
explains explained describe mean means meant seem seems seemed become becomes became stay stays
stayed live lives lived eat eats ate drink drinks drank sleep sleeps slept arrive arrives arrived
depart departs departed fly flies flew drive drives drove travel travels meet meets met bring
brings brought hold holds held happen happens happened include includes included offer offers
offered provide provides contain contains contained return returns returned fail fails failed pass
passes passed cancel cancels cancelled confirm confirms confirmed schedule scheduled wait waits
waited hear heard feel feels felt believe guess hope hopes suggest suggests recommend recommends
recommended save saves saved load loads loaded play plays played talk talks talked speak spoke
learn learned teach taught follow follows followed lose lost win won break breaks broke broken cut
set sets sit sat stand stood grow grew spend spends spent serve serves served live rename renamed
move copy paste print order orders ordered share shares shared list draft drafts drafted summarize
summarise translate review compare calculate plan plans planned plant plants water cook cooks
cooked bake bakes baked turn cover covers fit fits weigh weighs last lasts join joins reply
replies replied forward attach upload download search searches roll patch sounds refund upgrade
deploy deployed sort sorted filter rent rented don't doesn't didn't isn't aren't wasn't weren't
won't wouldn't can't couldn't shouldn't haven't hasn't i'm i'd i'll i've you're you'd it's that's
there's let's what's who's where's how's we're they're he's she's
""")

VERBS |= word_set("""
hurts hurt aches smells tastes grows costs fits breaks crashes fails blocks leaks squeaks rattles
drops falls rises jumps sits stands hangs lies lays belongs depends matters appears exists remains
continues lasts produces causes requires allows lets helps supports explains contains covers
connects leads reaches lives dies wins loses plays sings dances swims walks rides climbs carries
throws catches pulls pushes presses touches holds hits kicks fights kills saves spends earns owes
borrows lends hires fires quits joins manages owns sounds feels wears dresses washes dries cleans
cooks bakes boils burns freezes melts cuts chops mixes adds serves orders pours fills
returns raises throws prints logs loads crashes hangs times exits compiles
deployed arrives leaves departs lands boards recommended mentioned announced released published
""")

ADJECTIVES = word_set("""
good better best bad worse worst new newer newest old older oldest big bigger biggest small
smaller smallest large larger largest long longer longest short shorter shortest high higher
highest low lower lowest cheap cheaper cheapest expensive fast faster fastest slow slower slowest
early earlier earliest late later latest quick quiet loud nice great fine perfect main other same
different own next last previous first second third whole full empty free available possible
important easy hard difficult simple clean dirty hot cold warm cool red blue green black white
yellow grey gray brown big wide narrow deep heavy light young direct nonstop non-stop cheap
central modern local public private open closed ready sure wrong correct right left busy safe
vegan vegetarian spicy fresh italian german french english american japanese indian chinese
spanish current recent final total daily weekly monthly middle entire several two three four five
six seven eight nine ten
""")

GERMAN = word_set("""
der die das den dem des ein eine einen einem einer eines kein keine keinen mein meine meinen
meinem meiner dein deine deinen deinem sein seine seinen seinem seiner ihr ihre ihren ihrem ihrer
unser unsere unseren euer eure dieser diese dieses diesen diesem jener jene jenes jenen welcher
welche welches welchen jeder jede jedes alle allen aller ich du er sie es wir mich dich ihn uns
euch mir dir ihm ihnen sich man wer wen wem was und oder aber denn weil dass daß ob wenn als wie
wo wann warum wieso auch noch nur schon sehr doch mal ja nein nicht nichts etwas mehr weniger viel
viele wenig wenige ganz gar eben halt bitte danke hallo heute morgen gestern jetzt dann danach
davor dort da hier hin her so zu zum zur in im ins an am ans auf aus bei beim mit nach von vom vor
für über unter um durch gegen ohne bis seit während wegen zwischen hinter neben ist sind war waren
bin bist seid sei wäre wären hat habe haben hatte hatten hast wird werden wurde würde würden werde
kann kannst können könnte könnten könntest muss müssen musst soll sollte sollen will willst wollen
wollte möchte möchten möchtest darf dürfen mag mögen lass lassen gibt gib geht gehen ging kommt
kommen kam macht mach machen gemacht sag sagen zeig zeige zeigen such suche suchen finde finden
find brauche brauchen brauchst nimm nehmen nehme buche buchen bucht gebucht kostet kosten kostete
liegt liegen steht stehen heißt heißen weiß wissen denke glaube glauben schau schauen schick
schicke schicken schreib schreibe schreiben öffne öffnen lösche löschen ändere ändern prüfe prüfen
fliegt fliegen fährt fahren hilf helfen erinnere erinnern vergleiche vergleichen bestelle
bestellen kaufe kaufen bezahlen zahlen frag frage fragen ruf rufe rufen anrufen arbeitet arbeiten
bleibt bleiben passt klingt scheint dauert dauern öffnet schließt läuft laufen startet starten
endet welch davon damit dafür darauf darüber dazu dabei daran darin übrigens eigentlich vielleicht
natürlich genau gut okay ok also nun gerne gern zwei drei vier fünf sechs sieben acht neun zehn
andere anderen anderer anderes beide beiden gibt's wieder zurück immer nie oft manchmal bisher
""")

GERMAN_DETERMINERS = word_set("""
der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner mein
meine meinen meinem meiner meines dein deine deinen deinem deiner sein seine seinen seinem seiner
ihr ihre ihren ihrem ihrer unser unsere unseren unserem unserer euer eure dieser diese dieses
diesen diesem jener jene jenes jenen jenem welcher welche welches welchen jeder jede jedes jeden
alle allen zum zur im ins am vom beim zwei drei vier fünf sechs sieben acht neun zehn beide beiden
einige mehrere viele
""")

STOP = (
    DETERMINERS
    | PREPOSITIONS
    | CONJUNCTIONS
    | PRONOUNS
    | ADVERBS
    | GERMAN
    | word_set("none eleven twelve fifteen twenty thirty hundred thousand other others")
    | word_set("""
be am is are was were been being have has had do does did done will would shall should can could
may might must need want let make get give take find show tell say see look go know think try use
put please like help don't doesn't didn't isn't aren't wasn't can't couldn't i'm i'd i'll i've
you're it's that's there's let's what's one ones got going things thing way lot kind sort bit
question questions second third fourth fifth lange lang braucht erste ersten erster erstes zweite
zweiten zweiter zweites dritte dritten dritter dritte letzte letzten letzter vierte vierten fünfte
frage fragen sache
""")
)

UNITS = word_set("""
second seconds minute minutes hour hours day days week weeks month months year years night nights
euro euros dollar dollars pound pounds percent km kilometers miles meters gram grams kg mb gb
sekunde sekunden minute minuten stunde stunden tag tage tagen woche wochen monat monate monaten
jahr jahre jahren nacht nächte nächten prozent uhr franken meter kilometer gramm morning evening
afternoon tonight time times mal
""")

INDEFINITE = word_set("""
a an some any another each every no ein eine einen einem einer eines kein keine keinen
""")

PLURAL_WORDS = word_set("""
people children men women these those both alle beide viele einige mehrere diese many
""")
