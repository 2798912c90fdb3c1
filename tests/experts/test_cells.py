"""Coresets by cells: one change of the records touches one slot or two, whatever stands in the list."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sottovoce.errors import ParameterError
from sottovoce.experts.cells import nearest_of_each_cell
from sottovoce.experts.sampling import ExpertSampling
from sottovoce.experts.written import WrittenEnsemble, WrittenOutputs
from sottovoce.methods.answering.answerer import AnswerSetting
from sottovoce.methods.answering.esa import ESA
from sottovoce.methods.answering.sga import SGA
from sottovoce.methods.base import Price
from sottovoce.models.base import WritingRequest
from sottovoce.models.fake import FakeScorer, FakeWriter
from sottovoce.privacy.unit import SWAP, TWO_SWAP, Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.testing.answer_road import TASK

RO, AR, ZO = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT
PLACES = (0.0, 1.0, 2.0, 10.0, 11.0, 12.0, 20.0, 21.0, 30.0, 31.0, 40.0, 41.0)


class Lines:
    """Cells on a line: those below 5, below 15, and so on, with noisy middles."""

    centres = np.array([[1.2], [10.7], [20.1], [30.9], [40.4]])

    def assign(self, points):
        return np.minimum(((points[:, 0] + 5) // 10).astype(np.int64), 4)


def placed(places, shots: int = 1) -> list[tuple[float, ...]]:
    vectors = np.array(places, dtype=np.float64)[:, None]
    return [tuple(places[unit] for unit in slot) for slot in nearest_of_each_cell(vectors, Lines(), shots)]


def touched(one, other) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("shots", [1, 2])
def test_one_change_touches_one_slot_where_a_unit_comes_or_goes_and_two_where_it_is_replaced(shots):
    whole = placed(PLACES, shots)
    most = {"gone": 0, "replaced": 0}
    for index, place in itertools.product(range(len(PLACES)), PLACES):
        without = [*PLACES[:index], *PLACES[index + 1 :]]
        most["gone"] = max(most["gone"], touched(whole, placed(without, shots)))
        most["replaced"] = max(most["replaced"], touched(whole, placed([*without, place + 0.25], shots)))
    assert most == {"gone": 1, "replaced": 2}


def test_the_nearest_of_all_records_can_change_in_every_slot():
    # What 5.7.2 rules out: each middle takes the nearest record of all, one after another.
    def nearest_of_all(places):
        left, taken = list(places), []
        for (middle,) in Lines.centres:
            best = min(left, key=lambda place: abs(place - middle))
            left.remove(best)
            taken.append(best)
        return taken

    before = [1.0, 10.0, 20.0, 30.0, 40.0]
    chain = [10.5, 20.0, 30.0, 40.0, 100.0]
    assert touched(nearest_of_all(before), nearest_of_all(chain)) == 5


def test_slots_do_not_follow_the_order_of_a_list():
    twins = [0.7, 1.7, 1.2, 1.2, 30.0]
    assert placed(twins) == placed(twins[::-1])
    assert placed(twins)[1:3] == [(), ()]


def test_a_unit_without_a_vector_is_in_no_cell():
    vectors = np.array([[np.nan], [1.0]])
    assert nearest_of_each_cell(vectors, Lines(), 1)[0] == [1]


@pytest.mark.parametrize(("adjacency", "change"), [(RO, TWO_SWAP), (AR, SWAP), (ZO, SWAP)])
def test_slots_by_content_are_charged_as_table_2_2_says_and_amplify_nothing(adjacency, change):
    sampling = ExpertSampling(experts=5, sampling="cells")
    assert sampling.change(adjacency) == change
    assert sampling.shared_sample(adjacency, 100) is None
    units = 100 if adjacency.size_is_public else None
    at = AnswerSetting(adjacency, sampling, units=units, dimension=3, candidates=4)
    alone = AnswerSetting(adjacency, ExpertSampling(4, 5), units=units, dimension=3, candidates=4)
    noise = [ESA().plan(Price(1.0, 1e-6), each).answerer.sigma for each in (at, alone)]
    assert noise[0] == pytest.approx(noise[1] * change.widths / 2, rel=1e-5)
    if change is TWO_SWAP:
        with pytest.raises(ParameterError, match="no price for several points"):
            SGA().plan(Price(8.0, 1e-6), at)


def test_two_changed_texts_move_sums_and_counts_by_no_more_than_is_told():
    vectors = {"card": (1.0, 0.0), "fee": (-1.0, 0.0), None: (np.nan, np.nan)}
    worlds = [
        WrittenOutputs(pair, TWO_SWAP, RO, slots=2, vectors=np.array([vectors[text] for text in pair]))
        for pair in itertools.product(vectors, repeat=2)
    ]
    reach = square = 0
    for one, other in itertools.combinations(worlds, 2):
        counts = one.keyword_counts(("card", "fee")), other.keyword_counts(("card", "fee"))
        moved = counts[0].values - counts[1].values
        reach = max(reach, int(moved.max() - moved.min()))
        sums = one.embedding_sum().values - other.embedding_sum().values
        square = max(square, int((sums * sums).sum()))
    assert reach == 4 == worlds[0].keyword_counts(("card", "fee")).sensitivity
    assert square == (4 << 16) ** 2 == worlds[0].embedding_sum().squared_l2


def test_experts_of_cells_see_the_records_of_their_cells():
    rows = [Row(n + 1, {"id": f"i{n}", "text": f"place {place:g}", "answer": "said"}) for n, place in enumerate(PLACES)]
    records = PrivateRecords(rows, source="memory", synthetic=True).with_public_size()

    def said(request: WritingRequest) -> str:
        return " ".join(given for given, _ in request.shots) or "nobody"

    experts = WrittenEnsemble(
        records,
        TASK,
        FakeWriter(said),
        ExpertSampling(experts=5, sampling="cells"),
        RO,
        tokens=9,
        randomness=SeededRandomness(1),
        embedder=FakeScorer(vectors=lambda text: [float(text.split()[1])] if text.startswith("place") else [0.0]),
    )
    with pytest.raises(ParameterError, match="released ones, by 'place'"):
        experts.ask({"text": "what now"})
    assert experts.record_points().slots == len(PLACES)
    experts.place(Lines())
    texts = experts.ask({"text": "what now"}).texts_without_noise()
    assert texts == ["place 1", "place 11", "place 20", "place 31", "place 40"]
    assert experts.ask({"text": "what now"}).change == TWO_SWAP


def test_cells_of_another_number_are_refused():
    rows = [Row(1, {"id": "a", "text": "place 1", "answer": "said"})]
    records = PrivateRecords(rows, source="memory", synthetic=True).with_public_size()
    for sampling in (ExpertSampling(experts=4, sampling="cells"), ExpertSampling()):
        experts = WrittenEnsemble(
            records, TASK, FakeWriter(), sampling, RO, tokens=9, randomness=SeededRandomness(1), embedder=FakeScorer()
        )
        with pytest.raises(ParameterError, match="as many as experts, for the sampling 'cells'"):
            experts.place(Lines())
