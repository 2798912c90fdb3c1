"""Planted in the shipped contracts, and in methods for the contracts to notice."""

from __future__ import annotations

from mutants.mutant import Mutant

ENTRIES = ("tests/contracts/test_entries.py::test_it_keeps_its_contract",)
WRONG = ("tests/contracts/test_wrong_entries.py",)
CLAIMS = ("tests/contracts/test_claims.py",)
SHIPPED = ("tests/contracts/test_shipped_suite.py",)

MUTANTS = [
    Mutant(
        "decoder-draws-at-another-price",
        "a decoder whose mechanism costs more than its step gets a plan, and is charged for the step",
        "methods/decoding/decoder.py",
        "if charged != drawn:",
        "if len(charged) != len(drawn):",
        ("tests/methods/decoding/test_decoding.py",),
    ),
    Mutant(
        "method-halves-its-sensitivity",
        "a registered method states half of the sensitivity that its sum has",
        "methods/poe.py",
        "return experts.clipped_sum(self.clip, self.normalization)",
        "right = experts.clipped_sum(self.clip, self.normalization); "
        "return Scores(right.values, sensitivity=max(1, right.sensitivity // 2), adjacency=right.adjacency)",
        ENTRIES,
    ),
    Mutant(
        "one-public-row",
        "the contract looks at the stated sensitivity beside one public row alone",
        "testing/methods.py",
        "        self._public_rows()\n",
        "",
        WRONG,
    ),
    Mutant(
        "one-public-row-for-decoders",
        "the contract looks at decoders beside one public row alone",
        "testing/decoders.py",
        "        self._public_rows(plan, claim)\n",
        "",
        WRONG,
    ),
    Mutant(
        "public-rows-by-stated-bounds-alone",
        "the contract compares what is stated beside other public rows, and not what moves",
        "testing/public_rows.py",
        "        if too_long or int(moved.max()) - int(moved.min()) > first.sensitivity:\n",
        "        if too_long:\n",
        WRONG,
    ),
    Mutant(
        "three-labels-at-one-price",
        "the contract compares laws over three labels at one price alone",
        "testing/methods.py",
        "            self._smallest_worlds({**claims, **large})\n",
        "            self._smallest_worlds({key: claims[key] for key in claims if key[1] == PRICES[0]})\n",
        WRONG,
    ),
    Mutant(
        "five-labels-unseen",
        "the contract compares laws over two and three labels alone",
        "testing/methods.py",
        "in itertools.product(CHANGES, claims, worlds.ROWS):",
        "in itertools.product(CHANGES, claims, (2, 3)):",
        WRONG,
    ),
    Mutant(
        "one-text-a-batch",
        "the contract compares the law of one text of a batch, however many are charged",
        "testing/decoders.py",
        "for of_a_text in batches * setting.texts:",
        "for of_a_text in batches:",
        WRONG,
    ),
    Mutant(
        "other-divisors-under-one-relation",
        "the contract compares laws at other public numbers under replace-one alone",
        "testing/decoders.py",
        "(Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE)\n",
        "(Adjacency.REPLACE_ONE,)\n",
        WRONG,
    ),
    Mutant(
        "contract-forgets-the-width",
        "a bounded-range event is compared by its largest loss alone",
        "testing/claims.py",
        "return Claim(words, pure=event.eta, width=event.eta)",
        "return Claim(words, pure=event.eta)",
        CLAIMS,
    ),
    Mutant(
        "contract-in-one-direction",
        "neighbours are compared one way round alone",
        "testing/claims.py",
        "both = np.array([*pairs, *((j, i) for i, j in pairs)])",
        "both = np.array([*pairs])",
        CLAIMS,
    ),
    Mutant(
        "contract-forgives-state",
        "a method that answers otherwise after other questions passes",
        "testing/methods.py",
        "if self._fingerprint(scene, number) != before[number]:",
        "if self._fingerprint(scene, number) == []:",
        WRONG,
    ),
    Mutant(
        "contract-believes-the-law",
        "draws are not compared with the law that is stated",
        "testing/draws.py",
        "if tail * 2 * len(law) < ALARM]",
        "if tail < 0]",
        WRONG,
    ),
    Mutant(
        "contract-overlooks-a-registry",
        "entries of a new registry are put through no contract, and nothing fails",
        "testing/registries.py",
        "if isinstance(node, ast.FunctionDef) and _makes_decorators(node) and node.name not in known",
        "if isinstance(node, ast.FunctionDef) and _makes_decorators(node) and node.name in ()",
        SHIPPED,
    ),
    Mutant(
        "contract-draws-under-one-adjacency",
        "tokens are drawn under one adjacency alone, and a decoder without noise under another passes",
        "testing/decoders.py",
        "in itertools.product(Adjacency, POOLED)]",
        "in itertools.product([Adjacency.REPLACE_ONE], POOLED)]",
        ("tests/contracts/test_wrong_entries.py::test_a_wrong_decoder_is_noticed[QuietAdded--]",),
    ),
    Mutant(
        "contract-draws-at-one-price",
        "a method's answers are drawn at one price alone, and one without noise at others passes",
        "testing/methods.py",
        "adjacency, price = keys[dice.below(len(keys))]",
        "adjacency, price = keys[1]",
        ("tests/contracts/test_wrong_entries.py::test_a_wrong_method_is_noticed[UsualPrice--]",),
    ),
    Mutant(
        "contract-draws-at-small-bounds",
        "selections are drawn at bounds up to 15 alone, and one without noise above passes",
        "testing/mechanisms.py",
        "bound = (1, 2, 15, 1 + dice.below(15), large)[dice.below(5)]",
        "bound = (1, 2, 15, 1 + dice.below(15))[dice.below(4)]",
        ("tests/contracts/test_wrong_entries.py::test_a_wrong_mechanism_is_noticed[WideBounds--]",),
    ),
    Mutant(
        "contract-draws-at-four-bounds",
        "selections are drawn at bounds 1, 2, 15 and above, and one without noise between them passes",
        "testing/mechanisms.py",
        "bound = (1, 2, 15, 1 + dice.below(15), large)[dice.below(5)]",
        "bound = (1, 2, 15, 15, large)[dice.below(5)]",
        ("tests/contracts/test_wrong_entries.py::test_a_wrong_mechanism_is_noticed[BoundsBetween--]",),
    ),
    Mutant(
        "contract-looks-at-no-remainder",
        "wide noise is compared by intervals alone, and noise that is always even passes",
        "testing/mechanisms.py",
        "pool.note(event, common, chances[event], hits, size,",
        "pool.note(event, common, 0.0, hits, size,",
        ("tests/contracts/test_wrong_entries.py::test_a_wrong_mechanism_is_noticed[EvenNoise--]",),
    ),
    Mutant(
        "contract-pools-everything-at-once",
        "draws of all worlds are added up, and a sampler that is wrong in a few of them passes",
        "testing/pools.py",
        "for stratum in [(), *((item,) for item in items), *itertools.combinations(items, 2)]:",
        "for stratum in [()]:",
        ("tests/contracts/test_pools.py",),
    ),
]
