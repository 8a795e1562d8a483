package wire

import "errors"

// A frame is the length of its head in four bytes, big-endian, the head, and the data of the entries that the head
// lists. A head is a protobuf message; zeros are left out, and a field of an unexpected type counts as absent. Raft's
// field Leader is not sent: it repeats the field addr, for builds of Raft before addr existed.
//
//	message Request {
//	  uint32 group = 1;
//	  uint64 number = 2;            // its answer carries it
//	  uint64 term = 3;
//	  uint64 prev_entry = 4;
//	  uint64 prev_term = 5;
//	  uint64 commit = 6;
//	  int64 protocol = 7;           // Raft's protocol version
//	  bool own = 8;                 // id and addr are the stream's sender
//	  bytes id = 9;
//	  bytes addr = 10;
//	  repeated Entry entries = 12;
//	}
//	message Entry {
//	  uint64 index = 1;
//	  uint64 term = 2;
//	  uint32 type = 3;
//	  uint64 data = 4;              // bytes of data that follow the head
//	  uint64 extensions = 5;        // bytes of extensions that follow the data
//	  uint64 appended_s = 6;        // since the year 1, UTC
//	  uint64 appended_ns = 7;
//	}
//	message Answer {
//	  uint64 number = 2;
//	  uint64 term = 3;
//	  uint64 last_log = 4;
//	  bool success = 5;
//	  bool no_retry_backoff = 6;
//	  int64 protocol = 7;
//	  bool own = 8;                 // id and addr are the stream's receiver
//	  bytes id = 9;
//	  bytes addr = 10;
//	  string error = 12;            // if not empty, the other fields are absent, except number
//	}
const (
	numberField = 2 // the fields up to addrField are the same in requests and answers
	termField   = 3
	protoField  = 7
	ownField    = 8
	idField     = 9
	addrField   = 10

	groupField     = 1
	prevEntryField = 4
	prevTermField  = 5
	commitField    = 6
	entriesField   = 12

	lastLogField   = 4
	successField   = 5
	noBackoffField = 6
	errorField     = 12

	entryIndexField      = 1
	entryTermField       = 2
	entryTypeField       = 3
	entryDataField       = 4
	entryExtensionsField = 5
	entrySecondsField    = 6
	entryNanosField      = 7
)

// The bounds of one frame, in bytes unless noted.
const (
	lengthBytes = 4
	maxEntries  = 1024     // entries; Raft's own bound for one request
	maxHead     = 64 << 10 // a head of maxEntries entries
	maxBeat     = 1 << 10  // a head without entries
	maxAnswer   = 2 << 10
	maxError    = 1 << 10  // of an error's text; the rest is cut off
	maxData     = 64 << 20 // far more than 32 entries of the largest task
)

var errMalformed = errors.New("malformed frame")
