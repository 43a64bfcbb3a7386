"""`AsyncDataStream`: calls of an `AsyncFunction` behind a stream.

Flink: pyflink.datastream.AsyncDataStream. On a keyed stream the records go to the instance of their key, but the
function has no state.
"""

from __future__ import annotations

from flintstream.api.arguments import TypeLike, require
from flintstream.api.async_calls import add_async_function
from flintstream.api.datastream import DataStream
from flintstream.api.stream import Streamlike
from flintstream.model.functions_async import NO_RETRY_STRATEGY, AsyncFunction, AsyncRetryStrategy
from flintstream.model.time import DurationLike


class AsyncDataStream:
    """Where asynchronous calls begin; `stream.map_async(...)` is shorter for one result each."""

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: DurationLike,
        capacity: int = 100,
        output_type: TypeLike = None,
    ) -> DataStream:
        """Call the function for each record; a call that hangs does not keep later ones from beginning.

        Args:
            data_stream: the records.
            async_function: what to call.
            timeout: how long a record may take, from the beginning of its call; 0: as long as it likes.
            capacity: how many calls may be under way at a time, in each parallel instance.
            output_type: the type of the results, if it is to be enforced.
        """
        return AsyncDataStream.unordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: DurationLike,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: TypeLike = None,
    ) -> DataStream:
        """Do as `unordered_wait`, but try again as a strategy says; `timeout` is for all attempts together."""
        stream = _stream_of(data_stream)
        return add_async_function(
            stream, async_function, timeout, async_retry_strategy, capacity, output_type, ordered=False
        )

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: DurationLike,
        capacity: int = 100,
        output_type: TypeLike = None,
    ) -> DataStream:
        """Call the function for each record; a result that waits for those before it takes room like a call.

        >>> import asyncio
        >>> from flintstream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
        >>> class Lookup(AsyncFunction):
        ...     async def async_invoke(self, value):
        ...         await asyncio.sleep(0.001)
        ...         return [value, value * 10]
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> found = AsyncDataStream.ordered_wait(env.from_collection([1, 2]), Lookup(), "10s")
        >>> list(found.execute_and_collect())
        [1, 10, 2, 20]
        """
        return AsyncDataStream.ordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: DurationLike,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: TypeLike = None,
    ) -> DataStream:
        """Do as `ordered_wait`, but try again as a strategy says; `timeout` is for all attempts together."""
        stream = _stream_of(data_stream)
        return add_async_function(
            stream, async_function, timeout, async_retry_strategy, capacity, output_type, ordered=True
        )


def _stream_of(stream: DataStream) -> Streamlike[DataStream]:
    checked = require(stream, DataStream, "a stream", "pass a DataStream or a KeyedStream")
    return checked._stream  # pyright: ignore[reportPrivateUsage]  # streams are one family
