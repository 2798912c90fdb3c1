"""Planted bugs: failures of servers that are given to the wrong one, prompts and claims that go where they must not."""

from __future__ import annotations

from mutants.mutant import Mutant

_WRITER = "tests/models/http/test_server_writer.py::"
_LOCAL = "tests/models/writing/test_writer.py::"

MUTANTS = [
    Mutant(
        "a-failure-beside-others-is-own",
        "a prompt that failed while others were under way is not asked again by itself",
        "models/http/asking.py",
        "again = await self._tried(prompt)",
        "again = result",
        (_WRITER + "test_a_failure_that_passes_is_nobodys",),
    ),
    Mutant(
        "busy-is-own",
        "a prompt that met a busy server is null, so that the load of other experts decides who is heard",
        "models/http/exchange.py",
        "_BUSY: Final = frozenset({429, 503, 529})",
        "_BUSY: Final = frozenset()",
        (_WRITER + "test_a_busy_server_is_everybodys_even_if_one_prompt_alone_meets_it",),
    ),
    Mutant(
        "the-server-is-looked-at-behind-failures-alone",
        "whether an answer comes tells that somebody's prompt failed",
        "models/http/asking.py",
        "if prompts:  # whether or not one failed",
        "if None in values:  # whether or not one failed",
        (_WRITER + "test_each_api_gives_each_request_its_text",),
    ),
    Mutant(
        "any-model-may-answer",
        "the name of the model that answered is not looked at",
        "models/http/asking.py",
        "require_model(found, self._accepted or (self._server.model,))",
        "require_model(found, (str(found.get('model')),))",
        (_WRITER + "test_what_stays_by_itself_is_the_requests_own_and_no_other_is_touched",),
    ),
    Mutant(
        "half-an-answer-counts",
        "a text that was filtered or cut off in the middle is taken for a whole one",
        "models/http/replies.py",
        'if choice.get("finish_reason") not in ENDS:',
        'if choice.get("finish_reason") == "content_filter":',
        (_WRITER + "test_what_stays_by_itself_is_the_requests_own_and_no_other_is_touched",),
    ),
    Mutant(
        "a-server-is-trusted-unasked",
        "isolation counts as asserted though nobody asserted it",
        "models/http/served.py",
        "return Isolation.ASSERTED if self.server.asserted else Isolation.NOT_VERIFIED",
        "return Isolation.ASSERTED",
        (_WRITER + "test_isolation_is_what_the_operator_says_and_the_note_says_who_sees_prompts",),
    ),
    Mutant(
        "the-log-of-headers-is-on",
        "the HTTP library writes what a server sent into a log at DEBUG",
        "models/http/exchange.py",
        "_LOG.setLevel(max(_LOG.level, logging.INFO))",
        "_LOG.setLevel(_LOG.level)",
        ("tests/leaks/test_servers.py::test_a_server_that_quotes_prompts_makes_nothing_show_them",),
    ),
    Mutant(
        "prompts-go-in-clear",
        "plain http:// to other machines needs no word of the operator",
        "models/http/address.py",
        "if not server.unencrypted and not is_guarded(url):",
        "if server.unencrypted and not is_guarded(url):",
        (_WRITER + "test_a_name_that_is_not_usable_is_refused",),
    ),
    Mutant(
        "capitals-go-in-clear",
        "an address is asked as it was typed, and judged by how it begins",
        "models/http/address.py",
        "if not server.unencrypted and not is_guarded(url):",
        "given_ = match['url'] or os.environ.get(BASE_URL, '')\n"
        "        if not server.unencrypted and given_.startswith('http:') and not is_guarded(url):",
        (_WRITER + "test_prompts_go_in_clear_to_no_other_machine_however_the_address_is_written",),
    ),
    Mutant(
        "an-endpoint-is-asked-in-clear",
        "records and the key of an audited system go over the network as they are",
        "audits/game/endpoint.py",
        "if not self.unencrypted and not is_guarded(address):",
        "if self.unencrypted and not is_guarded(address):",
        ("tests/audits/test_report.py::test_records_and_the_key_go_in_clear_to_this_machine_alone",),
    ),
    Mutant(
        "an-endpoint-is-asked-through-proxies",
        "records and the key go to a machine that the environment names",
        "audits/game/endpoint.py",
        "build_opener(_NoRedirect, _NO_PROXIES)",
        "build_opener(_NoRedirect)",
        ("tests/audits/test_report.py::test_an_endpoint_is_asked_without_proxies",),
    ),
    Mutant(
        "answers-of-all-versions-are-one",
        "kept answers of a model's earlier version are mixed with those of the present one",
        "models/http/served.py",
        'return f"{self.server.url}{path} {self.asker.accepted}"',
        'return f"{self.server.url}{path}"',
        (_WRITER + "test_what_another_version_wrote_is_not_mixed_in",),
    ),
    Mutant(
        "the-key-is-looked-for-in-what-was-cut",
        "a key that straddles the end of a server's words is shown in part",
        "models/http/exchange.py",
        'said = _plain(key.hidden((content or b"").decode("utf-8", "replace")))',
        'said = key.hidden(_plain((content or b"").decode("utf-8", "replace")))',
        (_WRITER + "test_a_key_is_taken_out_before_a_servers_words_are_cut",),
    ),
    Mutant(
        "the-key-is-known-in-one-spelling-alone",
        "a key whose slash a server writes with a backslash is shown",
        "models/http/address.py",
        'return self._written.sub("[key]", said) if self.text else said',
        'return said.replace(self.text, "[key]") if self.text else said',
        (_WRITER + "test_a_key_is_taken_out_before_a_servers_words_are_cut",),
    ),
    Mutant(
        "a-broken-model-goes-on-writing",
        "nobody looks whether a model still reads public text as before it read private prompts",
        "models/writing/writer.py",
        "            self._require_sound(before)\n        return texts",
        "        return texts",
        (_LOCAL + "test_a_model_that_a_request_breaks_fails_for_everybody",),
    ),
]
