"""Renders templates with Jinja2, set up as Hugging Face transformers sets it up for chat templates.

usage: jinja_reference.py CASES.json RESULTS.json
CASES: [{"template": text, "context": {...}}]; RESULTS: [{"text": ...} or {"error": reason, "type": class}]
"""
import json
import signal
import sys
from datetime import datetime

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_render")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def make_environment():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment


class Timeout(Exception):
    pass


def on_alarm(*unused):
    raise Timeout("the reference needs too long")


def main():
    environment = make_environment()
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = json.load(file)
    signal.signal(signal.SIGALRM, on_alarm)
    results = []
    compiled = {}  # by source; compiling takes most of the time
    for case in cases:
        source = case["template"]
        try:
            signal.alarm(5)
            if source not in compiled:
                compiled[source] = environment.from_string(source)
            text = compiled[source].render(**case["context"])
            text.encode("utf-8")
            results.append({"text": text})
        except (Exception, RecursionError) as error:  # whatever a template can cause
            results.append({"error": str(error), "type": type(error).__name__})
        finally:
            signal.alarm(0)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(results, file, ensure_ascii=True)


main()
