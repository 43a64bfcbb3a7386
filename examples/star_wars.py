"""Star Wars in the order of its story: the films came out of order, and event time puts them back.

The time of an event is the episode's number; that of its processing is the year it was released. Since a film can come
out before six earlier ones of the story, the watermark stays that far behind.

It prints:

    episode 1: The Phantom Menace (1999)
    episode 2: Attack of the Clones (2002)
    episode 3: Revenge of the Sith (2005)
    episode 4: A New Hope (1977)
    episode 5: The Empire Strikes Back (1980)
    episode 6: Return of the Jedi (1983)
    episode 7: The Force Awakens (2015)
"""

from __future__ import annotations

from flintstream import DataStream, StreamExecutionEnvironment, bounded

RELEASED = [
    {"year": 1977, "episode": 4, "title": "A New Hope"},
    {"year": 1980, "episode": 5, "title": "The Empire Strikes Back"},
    {"year": 1983, "episode": 6, "title": "Return of the Jedi"},
    {"year": 1999, "episode": 1, "title": "The Phantom Menace"},
    {"year": 2002, "episode": 2, "title": "Attack of the Clones"},
    {"year": 2005, "episode": 3, "title": "Revenge of the Sith"},
    {"year": 2015, "episode": 7, "title": "The Force Awakens"},
]


def in_order(env: StreamExecutionEnvironment) -> DataStream:
    """Return the films in the order of the story."""
    films = env.from_collection(RELEASED).assign_timestamps_and_watermarks(bounded("6ms", on="episode"))
    return films.sort_by_event_time()


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    for film in in_order(env).execute_and_collect("star wars"):
        print(f"episode {film['episode']}: {film['title']} ({film['year']})")


if __name__ == "__main__":
    main()
