"""Word count over a text: how often each word has come so far, once per word.

python examples/word_count.py                     on embedded Spark
FLINTSTREAM_RUNTIME=local python examples/word_count.py    in this process

It prints, in any order of the words:

    to 1
    be 1
    or 1
    not 1
    to 2
    be 2
    that 1
    is 1
    the 1
    question 1
"""

from __future__ import annotations

from collections.abc import Iterator

from flintstream import StreamExecutionEnvironment

TEXT = [
    "to be or not to be",
    "that is the question",
]


def words(line: str) -> Iterator[tuple[str, int]]:
    """Yield each word with a one."""
    for word in line.split():
        yield word, 1


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    counts = env.from_collection(TEXT).flat_map(words).key_by(lambda pair: pair[0]).sum(1)
    for word, count in counts.execute_and_collect("word count"):
        print(word, count)


if __name__ == "__main__":
    main()
