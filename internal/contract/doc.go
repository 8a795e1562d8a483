// Package contract reads and writes the JSON of the public API. The service, its Go client and its deliveries share it,
// so that they cannot differ. It imports the standard library only.
//
//	Field, Set, Object         the members of the API's objects, and the members that calls about tasks take
//	Members                    the members of rare calls, each with the place for its value
//	Reader                     reads requests and answers, strictly
//	Append…, Close             write requests and answers
//	ParseDuration, …Instant    durations and instants as texts
//	SyntaxError, MemberError   the reason why a text or a member is refused
//
// # Reading
//
//   - The Reader refuses a text by the place where the text stops being JSON (RFC 8259), and a member by its name: an
//     unknown member, a member given twice, a member of another call, or a value of the wrong type.
//   - Strings are UTF-8. The Reader refuses a lone surrogate, since a surrogate has no UTF-8 form. Values nest at most
//     1000 deep.
//   - A caller can take a value byte for byte, so that payloads stay unchanged.
//   - Reading neither recurses nor allocates by depth. Results alias the text.
//   - Known reads answers. It skips unknown members, since a later service may send more.
//
// # Writing
//
// The writer appends an object member by member, each with a comma in front; Close then puts the brace in place of the
// first comma. Durations are written in the shortest form that ParseDuration reads ("10m", "7d"), instants in
// milliseconds with Z.
//
// # Why not
//
//   - encoding/json: it accepts members that are given twice or in another case, replaces bytes that are not UTF-8, and
//     drops the spaces of a payload.
//   - github.com/go-json-experiment/json/jsontext (v1.27.2): it is strict enough, but each batch line costs 45 % more
//     processor time, and a line with a payload of 16 KiB 75 % more. The throughput of batches is a promise. The
//     package also has its own limit of depth, and reports places in bytes where the API's errors count characters.
//   - A map from names to fields: FieldOf runs for every member of every line, and takes about half the time of a
//     search in a map.
//
// The figures come from BenchmarkParseLine in package httpapi: processor time per line, medians of ten rounds on one
// core of an AMD EPYC, with one decoder that was reset for each line.
//
//	line                      Reader     jsontext
//	payload of 200 bytes      0.65 µs    0.94 µs
//	the same, with a key      0.85 µs    1.22 µs
//	payload of 16 KiB         5.0 µs     8.7 µs
package contract
