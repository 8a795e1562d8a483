/**
 * The client of Belfry, a clustered timer service: it schedules, cancels, consumes and receives tasks.
 *
 * <p>{@link io.github.belfryhq.client.Belfry} makes calls, {@link io.github.belfryhq.client.Worker} consumes a queue, and
 * {@link io.github.belfryhq.client.Receiver} verifies webhooks.
 *
 * <p>The client depends on no library. It needs JSON for its own requests and answers, and has a reader and a writer of its
 * own. Weighed were Jackson, whose releases 2 and 3 programs pin at their own versions; Gson, which reads numbers as doubles
 * unless told otherwise; and Jakarta JSON Processing, an interface that needs a provider beside it. Each would add a second
 * JSON library to the programs that have another. {@code JacksonCodec} maps payloads by Jackson 2 if the program has it.
 */
package io.github.belfryhq.client;
