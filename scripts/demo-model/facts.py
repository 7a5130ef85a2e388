"""The facts of the demo model's small world: every name, word and table that world.py draws from.

The order of each list is part of the training data: a draw is an index into it.
"""

NAMES = """
    Ada Bob Clara David Emma Felix Grace Henry Iris Jack Kate Leo Mia Noah Olga Paul Quinn Rosa Sam Tina
    Uma Victor Wendy Xavier Yara Zoe Anna Ben Carl Dora Eric Fiona George Hanna Ivan Julia Kevin Laura
    Max Nina Oscar Petra Ralf Sara Tom Ulla Vera Will Alice Peter
""".split()
COLOURS = "red blue green yellow orange purple pink brown black white grey gold silver".split()
PETS = "dog cat rabbit hamster parrot goldfish turtle horse pony kitten puppy lizard".split()
FOODS = "pizza pasta soup rice bread cheese apples cake salad noodles pancakes curry sushi tacos".split()
CITIES = """
    Paris London Berlin Rome Madrid Tokyo Oslo Vienna Lisbon Dublin Prague Athens Cairo Lima Delhi Seoul
    Toronto Boston Chicago Sydney Zurich Geneva Milan Munich Hamburg Lyon Porto Bergen Kyoto Austin
""".split()

# What each animal says.
ANIMALS = {
    "dog": "bark", "cat": "meow", "cow": "moo", "sheep": "baa", "horse": "neigh", "duck": "quack",
    "pig": "oink", "lion": "roar", "frog": "croak", "owl": "hoot", "bee": "buzz", "snake": "hiss",
    "wolf": "howl", "rooster": "crow", "mouse": "squeak", "goat": "bleat",
}

# Country: capital.
CAPITALS = {
    "France": "Paris", "Germany": "Berlin", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo",
    "Norway": "Oslo", "Sweden": "Stockholm", "Denmark": "Copenhagen", "Finland": "Helsinki",
    "Austria": "Vienna", "Portugal": "Lisbon", "Ireland": "Dublin", "Greece": "Athens", "Egypt": "Cairo",
    "Peru": "Lima", "India": "New Delhi", "China": "Beijing", "Canada": "Ottawa", "Poland": "Warsaw",
    "Hungary": "Budapest", "Russia": "Moscow", "Turkey": "Ankara", "Kenya": "Nairobi", "Cuba": "Havana",
    "Chile": "Santiago", "Brazil": "Brasilia", "Mexico": "Mexico City", "Argentina": "Buenos Aires",
    "Australia": "Canberra", "South Korea": "Seoul", "Thailand": "Bangkok", "Vietnam": "Hanoi",
    "Belgium": "Brussels", "the Netherlands": "Amsterdam", "Switzerland": "Bern",
    "the United Kingdom": "London", "the United States": "Washington, D.C.", "Iceland": "Reykjavik",
    "Ukraine": "Kyiv", "Romania": "Bucharest", "Bulgaria": "Sofia", "Croatia": "Zagreb",
    "Serbia": "Belgrade", "Morocco": "Rabat", "Nigeria": "Abuja", "Ghana": "Accra",
    "Ethiopia": "Addis Ababa", "Iran": "Tehran", "Iraq": "Baghdad", "Israel": "Jerusalem",
    "Nepal": "Kathmandu", "Pakistan": "Islamabad", "Mongolia": "Ulaanbaatar", "Colombia": "Bogota",
    "Venezuela": "Caracas", "Ecuador": "Quito", "Bolivia": "Sucre", "Uruguay": "Montevideo",
    "New Zealand": "Wellington", "Slovakia": "Bratislava",
}

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
PLANETS = "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune".split()

OPPOSITES = {
    "hot": "cold", "big": "small", "fast": "slow", "up": "down", "left": "right", "day": "night",
    "happy": "sad", "open": "closed", "light": "dark", "hard": "soft", "old": "young", "rich": "poor",
    "early": "late", "full": "empty", "strong": "weak", "near": "far", "wet": "dry", "loud": "quiet",
    "clean": "dirty", "long": "short",
}

# What colour things have.
THINGS = {
    "the sky": "blue", "grass": "green", "snow": "white", "coal": "black", "a banana": "yellow",
    "a carrot": "orange", "blood": "red", "a lemon": "yellow", "chocolate": "brown", "a plum": "purple",
    "milk": "white", "a frog": "green",
}

# Chemical element: symbol.
SYMBOLS = {
    "hydrogen": "H", "helium": "He", "carbon": "C", "nitrogen": "N", "oxygen": "O", "sodium": "Na",
    "iron": "Fe", "copper": "Cu", "silver": "Ag", "gold": "Au", "lead": "Pb", "neon": "Ne", "sulfur": "S",
    "calcium": "Ca", "zinc": "Zn", "tin": "Sn",
}

# Definitions of one sentence.
DEFS = {
    "a GPU": "A GPU is a processor with many small cores that work in parallel.",
    "a token": "A token is a small piece of text, such as a word or a part of a word.",
    "a cache": "A cache keeps recent results close by, so that they need not be computed again.",
    "a kernel": "A kernel is a small program that runs on many GPU threads at once.",
    "memory": "Memory is where a computer keeps the data that it is working on.",
    "a server": "A server is a program that answers requests from other programs.",
    "a process": "A process is a running program with its own memory.",
    "a river": "A river is water that flows across the land to the sea.",
    "a star": "A star is a huge ball of hot gas that gives off light.",
    "rain": "Rain is water that falls from the clouds.",
    "a book": "A book is a set of pages with text or pictures.",
    "a bridge": "A bridge is a road over a river or a valley.",
    "an expert": "In a sparse model, an expert is a small network that handles only some of the tokens.",
    "a session": "A session is one conversation and the state that belongs to it.",
}

# Words to repeat, to write in capitals, and to put into stories.
WORDS = """
    apple river stone cloud tree lamp chair window garden music paper glass bottle spoon candle pencil
    bridge forest mountain ocean button carpet mirror ladder basket pillow ticket engine rocket planet
    island castle dragon wizard robot violin guitar piano
""".split()
# Words to spell.
SPELL = """
    cat dog sun moon tree house water apple green happy river stone music paper light bread table chair
""".split()
# Numbers as words, each at its own index.
NUMBERS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen twenty
""".split()

FRENCH = {
    "hello": "bonjour", "thank you": "merci", "cat": "chat", "dog": "chien", "house": "maison",
    "water": "eau", "bread": "pain", "sun": "soleil", "moon": "lune", "book": "livre", "red": "rouge",
    "blue": "bleu", "one": "un", "two": "deux", "three": "trois", "yes": "oui", "no": "non",
    "friend": "ami",
}
GERMAN = {
    "hello": "hallo", "thank you": "danke", "cat": "Katze", "dog": "Hund", "house": "Haus",
    "water": "Wasser", "bread": "Brot", "sun": "Sonne", "moon": "Mond", "book": "Buch", "red": "rot",
    "blue": "blau", "one": "eins", "two": "zwei", "three": "drei", "yes": "ja", "no": "nein",
    "friend": "Freund",
}
SPANISH = {
    "hello": "hola", "thank you": "gracias", "cat": "gato", "dog": "perro", "house": "casa",
    "water": "agua", "bread": "pan", "sun": "sol", "moon": "luna", "book": "libro", "red": "rojo",
    "blue": "azul", "one": "uno", "two": "dos", "three": "tres", "yes": "si", "no": "no", "friend": "amigo",
}

# System prompts.
SYSTEMS = [
    "You are a helpful assistant.",
    "You are a friendly assistant.",
    "Answer briefly.",
    "You are a helpful assistant. Keep answers short.",
    "Be concise and correct.",
    "You are Lilypad, a local assistant.",
]
