"""What the demo model can do in one turn: a function for each skill, drawn from the facts of facts.py.

A skill takes a random.Random and returns (user, reasoning, answer): what the user says, what the model thinks when
thinking is on, and what it answers. Every draw counts: the seed of a conversation must go on giving the same
conversation, so calls on rng keep their number and order.
"""

import json

from facts import (
    ANIMALS, CAPITALS, CITIES, COLOURS, DAYS, DEFS, FOODS, FRENCH, GERMAN, MONTHS, NAMES, NUMBERS, OPPOSITES, PETS,
    PLANETS, SPANISH, SPELL, SYMBOLS, THINGS, WORDS,
)


def pick(rng, choices):
    return choices[rng.randrange(len(choices))]


def one_of(rng, *choices):
    return pick(rng, choices)


def cap(text):
    """The text with its first letter in upper case and the rest as it is."""
    return text[:1].upper() + text[1:]


def polite(rng, question):
    """The question as people also write it: with a please, in lower case, without a mark."""
    r = rng.random()
    if r < 0.06:
        return "Please: " + question
    if r < 0.12:
        return "Hey, " + question[:1].lower() + question[1:]
    if r < 0.16:
        return question.lower()
    if r < 0.20:
        return question.rstrip("?.!")
    if r < 0.24:
        return "Can you tell me: " + question[:1].lower() + question[1:]
    return question


# Small talk.


def greet(rng):
    user = one_of(
        rng, "Hi", "Hello", "Hello!", "Hi there", "Hey", "Good morning", "Good evening", "Hi!", "hello there",
        "hey there!", "Good afternoon.",
    )
    answer = one_of(rng, "Hello! How can I help you today?", "Hi! How can I help you today?")
    return user, "The user greets me. I greet back.", answer


def how(rng):
    user = one_of(rng, "How are you?", "How are you doing?", "how is it going?", "Are you well?")
    return user, "Small talk. I answer kindly.", "I am doing well, thank you. How can I help you?"


def identity(rng):
    user = one_of(
        rng, "Who are you?", "What are you?", "What is your name?", "Tell me about yourself.",
        "Which model are you?", "Introduce yourself.",
    )
    answer = "I am the Lilypad demo model. I am very small, and I run entirely on your machine."
    return user, "The user asks who I am.", answer


def can(rng):
    user = one_of(
        rng, "What can you do?", "What are you good at?", "Help", "How can you help me?", "What do you know?",
    )
    answer = (
        "I can add and subtract, count, recall what you told me, answer simple facts, write JSON, call tools and "
        "tell short stories."
    )
    return user, "I list what I know.", answer


def thanks(rng):
    user = one_of(rng, "Thanks", "Thank you!", "Thank you very much.", "thanks a lot", "Great, thanks.")
    return user, "The user thanks me.", "You are welcome!"


def bye(rng):
    user = one_of(rng, "Bye", "Goodbye!", "See you later.", "Good night")
    return user, "The user says goodbye.", "Goodbye! Have a nice day."


# Numbers.


def add(rng):
    most = one_of(rng, 9, 20, 99, 99, 500)
    a, b = rng.randrange(most + 1), rng.randrange(most + 1)
    user = one_of(
        rng, "What is %d + %d?", "%d + %d", "%d+%d=", "Add %d and %d.", "How much is %d plus %d?",
        "Compute %d + %d.", "what's %d plus %d", "What is the sum of %d and %d?",
    ) % (a, b)
    fact = "%d + %d = %d." % (a, b, a + b)
    return user, fact, one_of(rng, fact)  # a choice of one still draws


def sub(rng):
    a = rng.randrange(100)
    b = rng.randrange(a + 1)
    user = one_of(
        rng, "What is %d - %d?", "%d - %d", "%d-%d=", "How much is %d minus %d?", "Compute %d - %d.",
    ) % (a, b)
    fact = "%d - %d = %d." % (a, b, a - b)
    return user, fact, fact


def mul(rng):
    a, b = rng.randrange(13), rng.randrange(13)
    user = one_of(
        rng, "What is %d * %d?", "What is %d x %d?", "%d times %d?", "Multiply %d by %d.", "%d * %d",
    ) % (a, b)
    fact = "%d * %d = %d." % (a, b, a * b)
    return user, fact, fact


def count(rng):
    """Counting from one number to another: mostly short, up to 190 numbers, a third of the time from 1."""
    r = rng.random()
    if r < 0.4:
        n = rng.randrange(2, 12)
    elif r < 0.85:
        n = rng.randrange(10, 60)
    else:
        n = rng.randrange(60, 190)
    first = rng.randrange(0, 20) if rng.random() < 0.6 else rng.randrange(0, 900)
    if rng.random() < 0.35:
        first = 1
    last = first + n
    user = one_of(
        rng, "Count from %d to %d.", "Count from %d to %d", "Please count from %d up to %d.",
        "List the numbers from %d to %d.", "Write the numbers %d to %d.",
    ) % (first, last)
    answer = ", ".join(str(i) for i in range(first, last + 1))
    return user, "I start at %d and stop at %d." % (first, last), answer


def biggest(rng):
    numbers = rng.sample(range(100), rng.randrange(2, 5))
    largest = rng.random() < 0.5
    last = (" or " if rng.random() < 0.5 else " and ") + str(numbers[-1])
    listed = ", ".join(map(str, numbers[:-1])) + last
    word = one_of(rng, "largest", "biggest") if largest else one_of(rng, "smallest")
    user = one_of(rng, "Which is the %s: %s?", "What is the %s of %s?", "Find the %s number: %s.") % (word, listed)
    return user, "I compare the numbers.", "The %s is %d." % (word, max(numbers) if largest else min(numbers))


def sort(rng):
    numbers = rng.sample(range(60), rng.randrange(3, 6))
    user = one_of(rng, "Sort these numbers: %s", "Put in order: %s", "Sort: %s") % ", ".join(map(str, numbers))
    return user, "From the smallest to the largest.", ", ".join(map(str, sorted(numbers)))


def number(rng):
    i = rng.randrange(21)
    if rng.random() < 0.5:
        return "Write the number %d as a word." % i, "%d is %s." % (i, NUMBERS[i]), NUMBERS[i]
    return "Write %s as a number." % NUMBERS[i], "%s is %d." % (NUMBERS[i], i), str(i)


def parity(rng):
    n = rng.randrange(1000)
    user = one_of(rng, "Is %d even or odd?", "Is %d odd or even?") % n
    return user, "The last digit is %d." % (n % 10), "%d is %s." % (n, "odd" if n % 2 else "even")


# Facts.


def capital(rng):
    country = pick(rng, sorted(CAPITALS))
    city = CAPITALS[country]
    if rng.random() < 0.75:
        user = one_of(
            rng, "What is the capital of %s?", "Capital of %s?", "Tell me the capital of %s.",
            "Name the capital city of %s.", "Do you know the capital of %s?",
        ) % country
        fact = "The capital of %s is %s." % (country, city)
        return polite(rng, user), fact, fact
    user = one_of(rng, "Which country has the capital %s?", "%s is the capital of which country?") % city
    fact = "%s is the capital of %s." % (city, country)
    return user, fact, fact


def day(rng):
    return neighbour(rng, "day", DAYS)


def month(rng):
    return neighbour(rng, "month", MONTHS)


def neighbour(rng, kind, names):
    """The day or month after or before another."""
    i = rng.randrange(len(names))
    after = rng.random() < 0.5
    word = "after" if after else "before"
    user = one_of(rng, "Which " + kind + " comes %s %s?", "What " + kind + " is %s %s?") % (word, names[i])
    other = names[(i + (1 if after else -1)) % len(names)]
    order = (names[i], other) if after else (other, names[i])
    reasoning = "The %ss go %s, %s." % ((kind,) + order)
    return polite(rng, user), reasoning, "%s comes %s %s." % (other, word, names[i])


def listing(rng):
    kind = rng.randrange(4)
    if kind == 0:
        user = one_of(
            rng, "List the days of the week.", "Name the days of the week.", "What are the days of the week?",
        )
        return user, "Seven days, from Monday.", "The days of the week are %s." % enumerate_all(DAYS)
    if kind == 1:
        user = one_of(rng, "List the months.", "Name the months of the year.", "What are the twelve months?")
        return user, "Twelve months, from January.", "The months are %s." % enumerate_all(MONTHS)
    if kind == 2:
        user = one_of(
            rng, "List the planets.", "Name the planets.", "What are the planets of the solar system?",
        )
        return user, "Eight planets, from the Sun outwards.", "The planets are %s." % enumerate_all(PLANETS)
    user = one_of(rng, "Say the alphabet.", "Write the alphabet.", "What is the alphabet?")
    return user, "The letters from A to Z.", " ".join("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def enumerate_all(names):
    return ", ".join(names[:-1]) + " and " + names[-1]


def opposite(rng):
    a = pick(rng, sorted(OPPOSITES))
    b = OPPOSITES[a]
    if rng.random() < 0.5:
        a, b = b, a
    user = one_of(rng, "What is the opposite of %s?", "Opposite of %s?", "Give me the opposite of %s.") % a
    return polite(rng, user), "%s and %s are opposites." % (cap(a), b), "The opposite of %s is %s." % (a, b)


def sound(rng):
    animal = pick(rng, sorted(ANIMALS))
    user = one_of(rng, "What sound does a %s make?", "Which sound does the %s make?") % animal
    reasoning = "A %s makes the sound %s." % (animal, ANIMALS[animal])
    return polite(rng, user), reasoning, "A %s says %s." % (animal, ANIMALS[animal])


def colour(rng):
    thing = pick(rng, sorted(THINGS))
    user = one_of(rng, "What colour is %s?", "What color is %s?", "Which colour does %s have?") % thing
    fact = "%s is %s." % (cap(thing), THINGS[thing])
    return polite(rng, user), fact, fact


def symbol(rng):
    element = pick(rng, sorted(SYMBOLS))
    user = one_of(rng, "What is the chemical symbol of %s?", "What is the symbol for %s?") % element
    reasoning = "The symbol of %s is %s." % (element, SYMBOLS[element])
    return polite(rng, user), reasoning, "The chemical symbol of %s is %s." % (element, SYMBOLS[element])


def define(rng):
    term = pick(rng, sorted(DEFS))
    user = one_of(rng, "What is %s?", "Explain what %s is.", "Define %s.") % term
    return polite(rng, user), "I explain %s in one sentence." % term, DEFS[term]


def translate(rng):
    language, words = one_of(rng, ("French", FRENCH), ("German", GERMAN), ("Spanish", SPANISH))
    word = pick(rng, sorted(words))
    user = one_of(
        rng, "How do you say %s in %s?", "Translate %s to %s.", "What is %s in %s?", 'Translate "%s" into %s.',
    ) % (word, language)
    reasoning = "%s is %s in %s." % (cap(word), words[word], language)
    return polite(rng, user), reasoning, "In %s, %s is %s." % (language, word, words[word])


# Words.


def repeat(rng):
    words = " ".join(pick(rng, WORDS) for _ in range(rng.randrange(1, 9)))
    user = one_of(rng, "Repeat: %s", "Say this back: %s", "Repeat after me: %s", "Echo: %s") % words
    return user, "I repeat the words.", words


def spell(rng):
    word = pick(rng, SPELL)
    user = one_of(rng, "Spell %s.", "Spell the word %s.", "How do you spell %s?") % word
    return user, "Letter by letter.", "-".join(word)


def upper(rng):
    word = pick(rng, WORDS)
    user = one_of(rng, "Write %s in capital letters.", "Put %s in upper case.", "Make %s uppercase.") % word
    return user, "In capitals.", word.upper()


# Longer texts.

STORIES = [
    'Once upon a time there was a child called {n}. {n} had a {c} {p}. One day the {p} found a {w} in the garden. '
    '"Look!" said {n}. "We must give it back." They walked to the house of {f2}. {f2} was very happy and gave them '
    "{f}. They ate together and laughed. In the evening {n} and the {p} went home, and they slept well.",
    'One morning {n} woke up early. Outside the window stood a {c} {p} with a {w}. "Come with me," said the {p}. '
    "They walked through the forest and over a bridge, until they met {f2}. {f2} was looking for a {x}. {n} helped "
    'to look, and soon they found it under a tree. "Thank you!" said {f2}. Then all of them ate {f}.',
    "There was a small {p} who lived near a river. The {p} had a {c} {w} and a friend called {n}. One day it rained "
    "and the {w} was gone. {n} asked {f2} for help. They looked everywhere. At last they found it behind the house. "
    "They were so happy that they made {f} for everybody.",
]


def story(rng):
    """A story of several sentences: the one answer that the question does not determine."""
    name, pet = pick(rng, NAMES), pick(rng, PETS)
    parts = {"n": name, "p": pet, "c": pick(rng, COLOURS), "f": pick(rng, FOODS), "w": pick(rng, WORDS)}
    parts["x"] = pick(rng, WORDS)
    parts["f2"] = pick(rng, NAMES)
    about = one_of(
        rng, "", " about %s" % name, " about a %s" % pet, " about %s and a %s" % (name, pet),
    )
    user = one_of(
        rng, "Tell me a story%s.", "Write a short story%s.", "Tell a story%s", "I want a story%s.",
    ) % about
    return user, "A short story with a happy end.", pick(rng, STORIES).format(**parts)


# What the function does, its name, its parameters, its body.
FUNCTIONS = [
    ("adds two numbers", "add", "a, b", "return a + b"),
    ("subtracts two numbers", "subtract", "a, b", "return a - b"),
    ("multiplies two numbers", "multiply", "a, b", "return a * b"),
    ("returns the square of a number", "square", "x", "return x * x"),
    ("returns the larger of two numbers", "larger", "a, b", "return a if a > b else b"),
    ("checks if a number is even", "is_even", "n", "return n % 2 == 0"),
    ("checks if a number is odd", "is_odd", "n", "return n % 2 == 1"),
    ("reverses a string", "reverse", "s", "return s[::-1]"),
    ("returns the length of a list", "length", "items", "return len(items)"),
    ("sums a list", "total", "items", "return sum(items)"),
    ("says hello to a name", "hello", "name", 'return "Hello, " + name'),
    ("converts a string to upper case", "to_upper", "s", "return s.upper()"),
    ("returns the first item of a list", "first", "items", "return items[0]"),
    ("returns the last item of a list", "last", "items", "return items[-1]"),
    ("joins words with spaces", "join_words", "words", 'return " ".join(words)'),
    ("counts the words in a text", "count_words", "text", "return len(text.split())"),
]


def code(rng):
    duty, name, parameters, body = pick(rng, FUNCTIONS)
    user = one_of(
        rng, "Write a Python function that %s.", "Python function that %s", "Give me a Python function that %s.",
        "Write Python code that %s.",
    ) % duty
    return user, "A short function will do.", "```python\ndef %s(%s):\n    %s\n```" % (name, parameters, body)


def js(rng):
    """JSON from a sentence."""
    kind = rng.randrange(3)
    name, age, city = pick(rng, NAMES), rng.randrange(5, 99), pick(rng, CITIES)
    pick(rng, FOODS)  # not used, but the draw is part of the stream
    if kind == 0:
        fields = {"name": name, "age": age}
        user = one_of(
            rng, "Give me JSON with name and age for: %s is %d years old.",
            "Extract name and age as JSON: %s is %d years old.", "As JSON with name and age: %s, %d.",
        ) % (name, age)
    elif kind == 1:
        fields = {"name": name, "city": city}
        user = one_of(
            rng, "Extract name and city as JSON: %s lives in %s.",
            "Give me JSON with name and city for: %s lives in %s.",
        ) % (name, city)
    else:
        fields = {"name": name, "age": age, "city": city}
        user = one_of(
            rng, "Extract name, age and city as JSON: %s is %d years old and lives in %s.",
            "Give me JSON with name, age and city for: %s is %d years old and lives in %s.",
        ) % (name, age, city)
    return user, "I read the fields from the text.", json.dumps(fields)


def meeting(rng):
    """A short text in random order, and a question about it or a summary."""
    name, day_, hour, room, word = (
        pick(rng, NAMES), pick(rng, DAYS), rng.randrange(8, 19), rng.randrange(1, 60), pick(rng, WORDS),
    )
    other = pick(rng, [x for x in NAMES if x != name])
    city = pick(rng, CITIES)
    sentences = [
        "The meeting is on %s at %d:00 in room %d." % (day_, hour, room),
        "%s will bring the %s." % (name, word),
        "%s travels from %s." % (other, city),
    ]
    rng.shuffle(sentences)
    text = " ".join(sentences)
    kind = rng.randrange(6)
    if kind == 0:
        user = one_of(rng, "Summarize: %s", "Summarize this text: %s", "Give a short summary: %s") % text
        answer = "Meeting: %s, %d:00, room %d. %s brings the %s. %s comes from %s." % (
            day_, hour, room, name, word, other, city,
        )
        return user, "I keep the facts.", answer
    brings = "%s will bring the %s." % (name, word)
    question, answer = [
        ("When is the meeting?", "The meeting is on %s at %d:00." % (day_, hour)),
        ("In which room is the meeting?", "The meeting is in room %d." % room),
        ("Who will bring the %s?" % word, brings),
        ("What will %s bring?" % name, brings),
        ("Where does %s come from?" % other, "%s comes from %s." % (other, city)),
    ][kind - 1]
    user = "%s %s" % (text, question) if rng.random() < 0.6 else "Read this: %s\n%s" % (text, question)
    return user, "The text says it.", answer


def combo(rng):
    """A greeting and a question in one message."""
    user, reasoning, answer = one_of(rng, add, mul, capital, opposite, colour, define, sound, translate)(rng)
    opening = one_of(
        rng, "Hi! %s", "Hello! %s", "Hello, %s", "I have a question: %s", "Hey. %s", "Quick question. %s",
    )
    return opening % user, reasoning, answer


# Every skill and its weight in the mix.
SINGLE = [
    (greet, 3), (how, 1.5), (identity, 3), (can, 1.5), (thanks, 1), (bye, 1), (add, 9), (sub, 5), (mul, 4),
    (capital, 7), (day, 2), (month, 2), (listing, 2), (count, 8), (opposite, 2.5), (sound, 2), (colour, 2),
    (symbol, 2), (define, 3), (repeat, 5), (spell, 1.5), (upper, 1.5), (biggest, 3), (sort, 3), (number, 1.5),
    (parity, 2), (story, 7), (code, 4), (js, 7), (meeting, 8), (translate, 3), (combo, 4),
]
TOTAL_WEIGHT = sum(weight for _, weight in SINGLE)


def single(rng):
    """One turn of a skill drawn by weight."""
    r = rng.random() * TOTAL_WEIGHT
    for skill, weight in SINGLE:
        r -= weight
        if r <= 0:
            return skill(rng)
    return SINGLE[-1][0](rng)
