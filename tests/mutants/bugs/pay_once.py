"""Planted in what pays once: sums over units, class means, encoded records, the fit, its certificate and its file."""

from __future__ import annotations

from mutants.mutant import Mutant

SUMS = ("tests/experts/test_unit_sums.py",)
MAPS = ("tests/experts/test_public_map.py",)
ENCODED = ("tests/experts/test_encoded.py",)
MEANS = ("tests/methods/test_class_means.py",)
FITS = ("tests/fitting/test_fit.py",)
CRASHES = ("tests/fitting/test_crashes.py",)
CERTIFICATES = ("tests/fitting/test_certificates.py",)
FILES = ("tests/fitting/test_fitted_files.py",)
SIZES = ("tests/fitting/test_sizes.py",)
CONTRACT = ("tests/contracts/test_entries.py::test_it_keeps_its_contract[fitter class-means]",)
SHOWN = ("tests/cli/test_fit.py::test_a_terminal_is_shown_the_number_of_units_where_it_is_public_alone",)
WRONG = ("tests/contracts/test_wrong_entries.py::test_a_wrong_fitter_is_noticed",)

SUMMED, MEANT = "experts/unit_sums.py", "methods/class_means.py"
READ, BLOCKS, FIT, FITTED = "experts/encoded.py", "experts/blocks.py", "fitting/fit.py", "fitting/fitted.py"
CERTIFICATE, FITTER, LOSSES = "fitting/certificate.py", "methods/fitting/fitter.py", "testing/draw_losses.py"

MUTANTS = [
    # Sums over units
    Mutant(
        "a-drop-without-its-count",
        "the count that a unit brings is left out of the bound of a drop",
        SUMMED,
        "return change.rows**2 * (LIMIT**2 + LIMIT**2 // self.divisor**2)",
        "return change.rows**2 * LIMIT**2",
        SUMS,
    ),
    Mutant(
        "a-swap-moves-one",
        "a swap is bounded as if the other unit's vector were orthogonal",
        SUMMED,
        "return (LIMIT * change.widths) ** 2",
        "return 2 * (LIMIT * change.rows) ** 2",
        SUMS,
    ),
    Mutant(
        "units-of-several-records-add-them-all",
        "every record adds its whole vector, however many its unit has",
        SUMMED,
        "several = np.bincount(units)[units] > 1 if len(units) else np.zeros(0, dtype=bool)",
        "several = np.zeros(len(units), dtype=bool)",
        SUMS,
    ),
    Mutant(
        "labels-share-no-norm",
        "a unit of two labels adds a whole vector to each",
        SUMMED,
        "weight = isqrt(LIMIT**2 * count**2 // square)",
        "weight = LIMIT",
        SUMS,
    ),
    Mutant(
        "labels-share-by-number",
        "a unit's norm is divided among its records, not by the norm of their numbers: noise for nothing",
        SUMMED,
        "weight = isqrt(LIMIT**2 * count**2 // square)",
        "weight = LIMIT * count // int(counts.sum())",
        SUMS,
    ),
    Mutant(
        "long-vectors-stay-long",
        "vectors above the norm are not shortened",
        SUMMED,
        "for index in np.flatnonzero(squares > LIMIT**2):",
        "for index in np.flatnonzero(squares > 1e300):",
        SUMS,
    ),
    Mutant(
        "rounded-to-the-nearest",
        "coordinates are rounded to the nearest step, which can lengthen a vector, and its norm was checked before",
        SUMMED,
        "return _within(np.trunc(rows * LIMIT).astype(np.int64))",
        "return np.rint(_within(np.trunc(rows * LIMIT).astype(np.int64)) * (1 + 1e-5)).astype(np.int64)",
        SUMS,
    ),
    Mutant(
        "norm-rounded-down",
        "a vector is shortened by a norm that is rounded down, and stays a step too long",
        SUMMED,
        "return isqrt(square - 1) + 1",
        "return isqrt(square) - 1",
        SUMS,
    ),
    Mutant(
        "silent-records-speak",
        "a record without a vector still counts for its label",
        SUMMED,
        "said = np.isfinite(vectors).all(axis=1)",
        "said = np.ones(len(vectors), dtype=bool)",
        SUMS,
    ),
    Mutant(
        "records-are-units",
        "every record counts as a unit",
        SUMMED,
        "return np.array([len(np.unique(block.units)) * LIMIT], dtype=np.int64)",
        "return np.array([len(block.units) * LIMIT], dtype=np.int64)",
        SUMS,
    ),
    Mutant(
        "likeness-of-every-record",
        "a unit of several records adds the likeness of each in full",
        SUMMED,
        "total[label] += self.steps_of(vector) // share",
        "total[label] += self.steps_of(vector)",
        SUMS,
    ),
    Mutant(
        "likeness-above-one",
        "likeness beyond the ceiling goes on growing",
        SUMMED,
        "np.clip(near, 0.0, 1.0)",
        "np.clip(near, 0.0, 2.0)",
        SUMS,
    ),
    Mutant(
        "likeness-that-is-no-number",
        "a likeness that overflows to no number becomes the least whole number",
        SUMMED,
        "said = np.where(np.isnan(near), 0.0, np.clip(near, 0.0, 1.0))",
        "said = np.clip(near, 0.0, 1.0)",
        SUMS,
    ),
    Mutant(
        "mapped-together",
        "records are mapped by one matrix product, whose last bits depend on the other rows",
        "experts/public_map.py",
        "row = np.vecdot(self.matrix, vector - self.centre)",
        "row = (self.matrix @ (vectors - self.centre).T)[:, index]",
        MAPS,
    ),
    Mutant(
        "centred-on-the-records",
        "the map takes off the mean of what it is given",
        "experts/public_map.py",
        "row = np.vecdot(self.matrix, vector - self.centre)",
        "row = np.vecdot(self.matrix, vector - np.nanmean(vectors, axis=0))",
        SUMS,
    ),
    # Class means
    Mutant(
        "half-the-noise-of-a-swap",
        "a swap is taken to move the sums by one",
        MEANT,
        "return float(change.widths)",
        "return float(change.rows)",
        MEANS,
    ),
    Mutant(
        "counts-free-under-a-drop",
        "counts are taken to be free where a unit leaves, too",
        MEANT,
        "return change.rows * math.hypot(1.0, 1.0 / self.divisor)",
        "return float(change.rows)",
        MEANS,
    ),
    Mutant(
        "number-of-units-for-free",
        "the noisy number of units is not in the event",
        MEANT,
        "return ComposedDpEvent([count_noise(self.count_sigma, setting.change).event, sums])",
        "return sums",
        MEANS,
    ),
    Mutant(
        "count-of-one-unit",
        "the number of units has noise for one unit, whatever the change",
        "methods/fitting/noisy_sums.py",
        "squared_l2 = (LIMIT * setting.change.rows) ** 2",
        "squared_l2 = LIMIT**2",
        CONTRACT,
    ),
    Mutant(
        "true-number-of-units",
        "the sums are divided by the true number of units where it is private",
        MEANT,
        "units = number_of_units(self.count_sigma, least, setting, private, randomness)",
        "units = max(float(private.sum_of(UnitCount())[0]) / 2**16, least)",
        CONTRACT,
    ),
    Mutant(
        "means-without-noise",
        "the classifier is made of the sums as they are",
        MEANT,
        "noisy = noisy_sum(rule, squared_l2, self._noise(setting), setting, private, randomness)",
        "noisy_sum(rule, squared_l2, self._noise(setting), setting, private, randomness)\n"
        "        noisy = private.sum_of(rule) / 2**16",
        CONTRACT,
    ),
    Mutant(
        "means-drawn-twice",
        "the sums are drawn twice and averaged, under one charge",
        MEANT,
        "noisy = noisy_sum(rule, squared_l2, self._noise(setting), setting, private, randomness)",
        "given = (rule, squared_l2, self._noise(setting), setting, private, randomness)\n"
        "        noisy = sum(noisy_sum(*given) for _ in range(2)) / 2",
        CONTRACT,
    ),
    Mutant(
        "means-drawn-towards-records",
        "means are drawn towards the private records in place of the public texts",
        MEANT,
        "None if rule.mapped is None else rule.mapped(public.vectors)",
        "None if rule.mapped is None else rule.mapped(private.block.vectors)",
        MEANS,
    ),
    Mutant(
        "whole-counts-under-a-drop",
        "counts come whole where they are charged as quarters",
        MEANT,
        "return ClassSums(setting.labels, setting.dimension, _divisor(setting), mapped), variances",
        "return ClassSums(setting.labels, setting.dimension, 1, mapped), variances",
        MEANS,
    ),
    Mutant(
        "spread-of-equal-means",
        "means that are all alike give a spread of zero, and answers that are no numbers",
        MEANT,
        "apart = apart if apart.sum() > 0 else np.ones_like(apart)",
        "apart = apart + 0.0",
        MEANS,
    ),
    Mutant(
        "noise-out-of-range-is-charged",
        "noise that cannot be drawn is found out when the charge is made",
        MEANT,
        "        sums = self._noise(setting).event\n",
        "        from sottovoce.privacy.events import GaussianDpEvent\n\n"
        "        step = ClassMeansStep(sigma=self.sigma, divisor=_divisor(setting))\n"
        "        sums = GaussianDpEvent(step.event(setting.change).noise_multiplier)\n",
        MEANS,
    ),
    Mutant(
        "what-is-priced-is-not-drawn",
        "the contract prices plans that it never draws",
        "testing/fitters.py",
        "        self._whatever_is_priced()\n",
        "",
        WRONG,
    ),
    Mutant(
        "one-kind-of-ledger",
        "the contract draws for a ledger that adds epsilons alone",
        "testing/fit_worlds.py",
        "LEDGERS: Final = (True, False)",
        "LEDGERS: Final = (True,)",
        WRONG,
    ),
    Mutant(
        "ledgers-by-extremes-alone",
        "worlds one change apart are compared for a ledger that adds epsilons alone",
        "testing/fitters.py",
        "self._neighbours(relation, adds_epsilons=adds)",
        "self._neighbours(relation, adds_epsilons=True)",
        WRONG,
    ),
    Mutant(
        "one-kind-of-unit",
        "the contract draws for two labels in three dimensions, and for records, alone",
        "testing/fitters.py",
        "(*usual, *other)",
        "usual",
        WRONG,
    ),
    Mutant(
        "drawn-again-unseen",
        "how often a fit draws is looked at under extreme releases alone",
        "testing/fitters.py",
        "elif left != self._left[1]:",
        "elif told is not None and left != self._left[1]:",
        WRONG,
    ),
    Mutant(
        "a-private-number-is-shown",
        "the progress bar counts units whose number is private",
        "cli/fit.py",
        "on_units=None if fitting.units is None else advance)",
        "on_units=advance)",
        SHOWN,
    ),
    # What a plan says
    Mutant(
        "event-as-charge",
        "a ledger that adds epsilons is charged the event, whose sum has no epsilon",
        FITTER,
        "return ApproximateDP(epsilon, price.delta)",
        "return event",
        FITS,
    ),
    Mutant(
        "all-bounds-for-rho",
        "noise is set by every bound where the ledger adds rho",
        FITTER,
        "return () if self.adds_epsilons else RHO_BOUNDS",
        "return ()",
        FITS,
    ),
    Mutant(
        "any-price",
        "settings that cost more than the price are taken",
        FITTER,
        "if report.epsilon > price.epsilon:",
        "if report.epsilon > 100 * price.epsilon:",
        MEANS,
    ),
    # Encoded records
    Mutant(
        "a-failure-takes-its-neighbours",
        "a record that cannot be read makes every record of its block say nothing",
        BLOCKS,
        "row[...] = self._vectors([record])[0]",
        "row[...] = self._vectors(records)[0]",
        ENCODED,
    ),
    Mutant(
        "read-in-the-making",
        "records are read before they are asked for",
        READ,
        "            self._units += 1\n",
        "            self._units += 1\n"
        "            embedder.embed_records(task, [example.fields for example in unit])\n",
        ENCODED,
    ),
    Mutant(
        "a-changed-model-is-taken",
        "what a model says of public texts behind the read is not looked at",
        READ,
        "            told(len(shard))\n        withheld(self._embedder, reader.require_sound)\n",
        "            told(len(shard))\n",
        ENCODED,
    ),
    Mutant(
        "what-the-model-says-is-told",
        "a model's own error leaves, with what it quotes",
        READ,
        "yield withheld(self._embedder, lambda shard=shard: reader.block(shard))  # type: ignore[misc]",
        "yield reader.block(shard)",
        ENCODED,
    ),
    Mutant(
        "units-cut-in-two",
        "records are numbered anew in every block by themselves, so that units fall apart",
        BLOCKS,
        "owners = [number for number, unit in enumerate(units) for _ in unit]",
        "owners = list(range(len(examples)))",
        ENCODED,
    ),
    # The fit
    Mutant(
        "fitted-before-the-charge",
        "records are read, then charged",
        FIT,
        "            self._account.reserve([reservation])\n            progress = ",
        "            self._encoded.read(self._public_texts, on_units, rules, self._engine)\n"
        "            self._account.reserve([reservation])\n            progress = ",
        FITS,
    ),
    Mutant(
        "a-second-draw-on-a-resume",
        "a run that was stopped while it was drawn is drawn again under its charge",
        FIT,
        "if standing is not None and standing.begun:",
        "if standing is not None and standing.left:",
        CRASHES,
    ),
    Mutant(
        "begun-behind-the-draw",
        "that the draw begins is noted when it is over",
        FIT,
        "        self._account.begin([reservation.release_id])\n        if progress is not None:\n"
        "            progress.forget()\n        try:\n"
        "            support = self.plan.fitter.fit(self.plan, private, public, self._randomness)\n",
        "        if progress is not None:\n            progress.forget()\n        try:\n"
        "            support = self.plan.fitter.fit(self.plan, private, public, self._randomness)\n"
        "            self._account.begin([reservation.release_id])\n",
        CRASHES,
    ),
    Mutant(
        "noted-before-it-is-saved",
        "that the support leaves is noted before it is on the disk",
        FIT,
        "        if checkpoint is not None:\n"
        "            checkpoint.save_bytes(_DRAWN, self._seal(run_state, content) + content, _LOST, LostDrawError)\n"
        "        self._account.mark_released(\n"
        '            [reservation.release_id], {reservation.release_id: f"{saved} {fitted.content_sha256}"}\n'
        "        )\n",
        "        self._account.mark_released(\n"
        '            [reservation.release_id], {reservation.release_id: f"{saved} {fitted.content_sha256}"}\n'
        "        )\n"
        "        if checkpoint is not None:\n"
        "            checkpoint.save_bytes(_DRAWN, self._seal(run_state, content) + content, _LOST, LostDrawError)\n",
        FITS,
    ),
    Mutant(
        "room-behind-the-draw",
        "whether the support can be saved is found out when it is drawn",
        FIT,
        "            checkpoint.make_room(_SEAL + self._bounds.size, self._last_room)\n",
        "            pass\n",
        FITS,
    ),
    Mutant(
        "a-refused-pool-settles-a-budget",
        "public texts are compared with the records that are fitted once their budget is opened",
        FIT,
        "        self._require_public_pool(beside=self._records)  # before a budget is settled for them\n"
        "        account = self._open()\n",
        "        account = self._open()\n        self._require_public_pool(beside=self._records)\n",
        FITS,
    ),
    Mutant(
        "an-output-without-room",
        "whether the output can be written beside what was drawn is found out when it is drawn",
        FIT,
        "checkpoint.make_room(_SEAL + self._bounds.size, self._last_room)",
        "checkpoint.make_room(_SEAL + self._bounds.size)",
        SIZES,
    ),
    Mutant(
        "a-file-of-any-size-is-charged",
        "whether the file can be written and read back is found out when it is paid for",
        FIT,
        "        self._bounds.require()\n",
        "",
        SIZES,
    ),
    Mutant(
        "read-back-when-it-is-paid",
        "whether what a file says of itself can be read back is found out when it is paid for",
        FIT,
        '            Fitted.from_bytes(head.to_bytes(), "what is to be fitted")\n',
        "            head.to_bytes()\n",
        SIZES,
    ),
    Mutant(
        "texts-in-the-header",
        "texts lie in a file's header, which no reader takes beyond a limit: whether a paid file is written follows "
        "from what was drawn",
        FITTED,
        'metadata={HEADER: json.dumps({"format": FORMAT})}',
        'metadata={HEADER: json.dumps({"format": FORMAT, **about})}',
        SIZES,
    ),
    Mutant(
        "one-text-a-label-has-room",
        "the bound on a file's size counts one text a label",
        FIT,
        "return self.plan.fitter.most_texts(self.plan.setting)",
        "return len(self.task.labels)",
        SIZES,
    ),
    Mutant(
        "labelled-texts-without-room",
        "a method that labels public texts says that it leaves none",
        "methods/label_public.py",
        "    def most_texts(self, setting: FitSetting) -> int:\n        return int(self.texts or 0)\n",
        "",
        SIZES,
    ),
    Mutant(
        "marks-inside-texts-count",
        "brackets and quotes inside public texts count as parts of a file, so that a paid one is not read",
        FITTED,
        """re.compile(r'"[^"\\\\]*+(?:\\\\.[^"\\\\]*+)*+"?|[\\[{]', re.DOTALL)""",
        """re.compile(r'["\\[{]')""",
        (*SIZES, *FILES),
    ),
    Mutant(
        "what-was-saved-is-taken-unseen",
        "a saved support is handed over whatever its hash",
        FIT,
        'if not whole or (standing.left and (standing.content or "").partition(" ")[0] != digest):',
        "if not saved:",
        CRASHES,
    ),
    Mutant(
        "another-request-under-the-charge",
        "a run goes on under a charge that was made for another request",
        FIT,
        "if standing is not None and standing.asked != asked_hash(self._request(run_state)):",
        "if standing is not None and not standing.asked:",
        CRASHES,
    ),
    Mutant(
        "seeded-noise-for-everybody",
        "a seeded source is taken for records of real people",
        FIT,
        "require_secure(self._randomness, synthetic=records.synthetic)",
        "require_secure(self._randomness, synthetic=True)",
        FITS,
    ),
    Mutant(
        "the-number-of-units-is-told",
        "the number of units is in the request and in the certificate where it is private",
        FIT,
        "return len(self._records) if self.adjacency.size_is_public else None",
        "return self._encoded.units",
        FITS,
    ),
    Mutant(
        "embeddings-tried-behind-the-charge",
        "an embedder that fails on every text is found out behind the charge",
        FIT,
        "for texts in (self._pool, self._public_texts)",
        "for texts in (self._pool, [])",
        FITS,
    ),
    Mutant(
        "the-lock-stays",
        "an error keeps the folder of its run locked",
        FIT,
        "    finally:\n        checkpoint.close()  # an error keeps it alive, and its lock would keep a resume out\n",
        "",
        FITS,
    ),
    # The certificate
    Mutant(
        "figures-not-checked",
        "the figure of a certificate is not held against its event",
        CERTIFICATE,
        "return report.epsilon <= self.epsilon * _SLACK, f",
        "return report.epsilon <= 1e9, f",
        CERTIFICATES,
    ),
    Mutant(
        "event-not-that-of-the-parameters",
        "the event is not worked out from the parameters again",
        CERTIFICATE,
        "return require_same_event(self.event, self._fitter().event(self._setting()))",
        "from sottovoce.privacy.event_json import event_from_json\n\n        return event_from_json(self.event)",
        CERTIFICATES,
    ),
    Mutant(
        "any-charge-covers",
        "a charge below the event's profile is taken to cover it",
        CERTIFICATE,
        "return report.epsilon <= charge.epsilon * _SLACK and charge.delta <= self.delta",
        "return report.epsilon < 1e9 and charge.delta <= self.delta",
        CERTIFICATES,
    ),
    Mutant(
        "request-not-compared",
        "the certificate's words are not compared with the request's",
        CERTIFICATE,
        "differs = [name for name in own if canonical(getattr(self, name)) != canonical(self.asked[name])]",
        "differs = [name for name in own if name not in self.asked]",
        CERTIFICATES,
    ),
    Mutant(
        "charge-for-another-request",
        "the ledger's charge is not held against the request",
        CERTIFICATE,
        'if detail.get("note") != self.note or detail.get("asked") != asked_hash(self.asked):',
        'if detail.get("note") != self.note:',
        CERTIFICATES,
    ),
    Mutant(
        "any-support-left",
        "the support is not held against what the ledger noted when it left",
        CERTIFICATE,
        'Check(left, noted == self.content_sha256, "by its hash" if gone else "nothing left"),',
        'Check(left, bool(noted), "by its hash" if gone else "nothing left"),',
        CERTIFICATES,
    ),
    Mutant(
        "seeded-noise-is-fine",
        "noise from a seeded source passes",
        CERTIFICATE,
        'Check("the noise came from the operating system", not self.seeded, ',
        'Check("the noise came from the operating system", True, ',
        CERTIFICATES,
    ),
    # The file
    Mutant(
        "any-support-in-the-file",
        "a file's support is not held against its certificate",
        FITTED,
        "if fitted.content_sha256 != fitted.certificate.content_sha256:",
        "if not fitted.certificate.content_sha256:",
        FILES,
    ),
    Mutant(
        "a-file-of-any-size",
        "a file is read before its size is looked at",
        FITTED,
        "if found.st_size > MOST_BYTES:",
        "if found.st_size > MOST_BYTES * 1_000:",
        FILES,
    ),
    Mutant(
        "vectors-of-any-model",
        "a classifier is used with another model's vectors",
        FITTED,
        "if found != self.embedding:",
        "if not found:",
        FILES,
    ),
    Mutant(
        "numbers-that-are-none",
        "a file's numbers may be infinite",
        FITTED,
        "if not all(array.dtype == np.float64 and np.isfinite(array).all() for array in arrays.values()):",
        "if not all(array.dtype == np.float64 for array in arrays.values()):",
        FILES,
    ),
    # The contract
    Mutant(
        "moves-are-not-measured",
        "the contract takes every move of a sum to be within what a mechanism was told",
        LOSSES,
        "(square := sum(step * step for step in moved)) > told.squared_l2:",
        "(square := sum(step * step for step in moved)) > 100 * told.squared_l2:",
        WRONG,
    ),
    Mutant(
        "losses-are-not-added",
        "the contract looks at one draw of each pair",
        "testing/fitters.py",
        "losses.add(\n"
        "                [loss_of(draw, twin) for draw, twin in "
        "zip(tapes[one].draws, tapes[other].draws, strict=True)], where\n"
        "            )",
        "losses.add([loss_of(tapes[one].draws[-1], tapes[other].draws[-1])], where)",
        WRONG,
    ),
    Mutant(
        "supports-are-not-compared",
        "the contract does not ask whether the same releases make the same support",
        "testing/fitters.py",
        "if worlds.support_marks(support) != worlds.support_marks(made):",
        "if type(support) is not type(made):",
        WRONG,
    ),
    # Certificates
    Mutant(
        "a-stated-event-is-not-compared",
        "a certificate's figures are those of its parameters, whatever event it states beside them",
        "privacy/checks.py",
        "if canonical(stated) != canonical(event_to_json(event)):",
        "if False:",
        ("tests/fitting/test_certificates.py::test_no_event_is_priced_but_that_of_the_parameters",),
    ),
    Mutant(
        "report-believes-its-file",
        "a report without a ledger prints a charge that is not that of the event",
        "explain/facts/facts.py",
        "c.require_consistent(fitted.content_sha256)",
        'c.require_sound("the fitted file")',
        ("tests/explain/test_facts.py::test_a_forged_file_is_refused_without_a_ledger_too",),
    ),
]
