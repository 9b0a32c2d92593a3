"""Build Wordle's frozen word lists from the packages `wordfreq` and `english-words`.

    python scripts/build_wordle_words.py            # writes adaplan_envs/wordle/data/{answers,guesses}.txt

The lists ship with the project, so a task stays the same whatever is installed; a test rebuilds and compares them.
Which word is a task is decided by the order of `answers.txt`: by the SHA-256 of the word, which has no pattern that a
player could use. The first 95 are the test split, the next 860 the train split, all of them are possible answers.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

DATA = Path(__file__).parent.parent / "adaplan_envs" / "wordle" / "data"
ANSWERS = 2300

# Words that the dictionary has as names too, and that are more than a name.
COMMON_DESPITE_CAPITAL = """
    think those state south major media march price space judge carry stone frank shape grant urban grace pilot creek
    robin sandy chuck mason delta cliff derby olive bride penny demon fiber kitty spike lance stern rogue marsh woody
    atlas boxer flora piper basil attic rusty nanny patty sedan hazel sigma medic natal cadet husky stoic mocha bongo
    tabby pygmy taffy rajah karst biota umbra ionic
"""

# Words at home in English that other languages use still more often.
COMMON_DESPITE_FOREIGN = """
    suite genre alter stark plaza stare spill merge tempo vista timer rouge lever equip quasi alias penal bland belle
    comma angst brood sauna forte kayak payer chute facet posse samba valet lager sever hater modal rower foyer revue
    cadre vigor mince quart gusto spore largo sable alder ember talon llama frisk spilt suave chock comer nadir salvo
    adieu gripe salve filet spate glade parka abate poser gaffe spiel bevel halve rebut fleck segue bandy batik rebus
    datum saute filer singe crier stilt burro antic ennui verso divan bilge spurt gouge
"""

# Singular, though they look like a plural.
SINGULAR = "chaos corps genus torus mumps"

# In everybody's mouth and younger than the dictionary, or an inflection that it does not list.
ADDED = """
    asked using heard began women email metro pasta vegan ninja intro promo combo disco pixel retro modem salsa scuba
    sushi biker donut heist latte ramen gamer dryer moved loved named liked owned voted filed fewer ruled cited dated
    acted aimed wider bored hated cared safer urged cyber newer rehab wiped aired posed opted aided cured fined nicer
    paved famed raced coded blond hyped fauna typed inbox taped muted mined towed woken faked boxed synth detox lipid
    decor condo indie
"""

# Names, places and brands that the dictionary spells in small letters (in some other sense, mostly an obsolete one),
# clippings, misspellings, foreign words and exotica that only their frequency as a name lifts among the common words.
UNCOMMON = """
    crain criss faust merle prius spitz synch waugh wigan
    abbas acton alamo albus aleph altho alway ameen ansar arent arjun ascii astor bafta bally barth begat begum belay
    berne bilbo bodhi bogan bosch bowie brant breck buffy bundy burgh burka burke cabot camus capel caryl chaka cheng
    chevy chile china ching cisco clary cleve cline clint coker costa cotta covid crick crore curie cutty damme darby
    debit degas delft dhoni didnt dixit doggo donna dover drake dunne emmet erika evert fanon firth fitch frith fundy
    garth gatsby gauss ghazi gilly gluck gomer goody graff grice guana gundy hamel hanna hanse hasan heald henny hogan
    hokey holla holly homey honda hough hoyle hurst hydro infra inter islay jenna jihad joshi josie julio karma kashi
    keita kerry kiley laird laker lamia laney layne levin liang lohan lough luger lynch macao machi macro malik marge
    maris masha massa mavis micro minot mirza molly morin nazir neath nicky nitty nubia ortho paolo pasha patel pater
    paulo peasy peres proto purdy rance razer reese reina rhine riley rishi rogan rohan rondo rowan ryder salma sault
    selah sheng sheva shira shure silva sloan smith smyth snell speer spiro steen stein stipe sturt sully tabor takin
    tania taylor thane thorp tibet tikka tilly titan tithe tommy tulsi unsee vardy varna vidya vinny wally walsh wasnt
    weber xenia yahoo youve zorro
"""

# Not for a game that anybody may watch.
OFFENSIVE = """
    bitch boner booby booty boozy burka busty butch chink darky dicky dildo fanny fecal feces genet gypsy harem horny
    hymen kafir kinky labia leper loony moron naked negro nigga pansy penis ponce porno prick pubic pussy queer raped
    satan semen sexed shite sissy skank slave spank sperm spunk squaw titty vomit vulva wench whore willy
"""

OTHER_LANGUAGES = "fr es de it nl pt pl sv fi id tr cs da hu ro nb ms fil sh ca"
FOREIGN = 1.2
"""A word is foreign where another language uses it more often by this many powers of ten (the Zipf scale)."""


def build() -> dict[str, str]:
    """Return file name -> text."""
    from english_words import get_english_words_set
    from wordfreq import top_n_list, zipf_frequency

    web2 = get_english_words_set(["web2"])
    dictionary = {word for word in web2 if re.fullmatch("[a-z]+", word)}
    names = {word.lower() for word in web2 if re.fullmatch("[A-Z][a-z]+", word)}
    used = [word for word in top_n_list("en", 400_000, wordlist="large") if re.fullmatch("[a-z]{5}", word)]

    def is_foreign(word: str) -> bool:
        own = zipf_frequency(word, "en")
        return any(zipf_frequency(word, language) - own > FOREIGN for language in OTHER_LANGUAGES.split())

    def looks_plural(word: str) -> bool:
        return bool(stems(word) & dictionary) and word.endswith("s")

    added = set(ADDED.split())
    kept = {*COMMON_DESPITE_CAPITAL.split(), *COMMON_DESPITE_FOREIGN.split(), *SINGULAR.split(), *added}
    dropped = {*UNCOMMON.split(), *OFFENSIVE.split()}
    common = [
        word
        for word in used
        if word not in dropped
        and (word in dictionary or word in added)
        and (word in kept or not (word in names or looks_plural(word) or is_foreign(word)))
    ]
    common.sort(key=lambda word: (-zipf_frequency(word, "en"), word))
    answers = common[:ANSWERS]
    guesses = {word for word in dictionary if len(word) == 5} | set(answers)
    guesses |= {word for word in used if stems(word) & dictionary}
    return {
        "answers.txt": lines(sorted(answers, key=lambda word: hashlib.sha256(word.encode()).digest())),
        "guesses.txt": lines(sorted(guesses - set(answers))),
    }


def stems(word: str) -> set[str]:
    """Return what `word` could be a regular inflection of: cats -> cat, skies -> sky, baked -> bake."""
    found = set()
    if word.endswith("s") and not word.endswith("ss"):
        found.add(word[:-1])
    for ending in ("es", "ed"):
        if word.endswith(ending):
            found |= {word[:-2], word[:-1]}
            if word[-3] == "i":
                found.add(word[:-3] + "y")
    return {stem for stem in found if len(stem) > 2}


def lines(words: list[str]) -> str:
    return "".join(f"{word}\n" for word in words)


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    for name, text in build().items():
        (DATA / name).write_text(text, encoding="ascii", newline="\n")
        print(f"{name}: {text.count(chr(10))} words")
