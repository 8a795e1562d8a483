package history

// The kinds of entries and rolls.
const (
	OfKeys       = "keys"
	OfNamespaces = "namespaces"
	OfTasks      = "tasks" // of rolls only
)

// Entry is one text of an API key, or a namespace, which a call has made and perhaps another one has ended. The text
// itself is not recorded.
type Entry struct {
	Kind      string `json:"kind"`
	ID        string `json:"id"` // id of the key, or name of the namespace
	Namespace string `json:"namespace,omitempty"`
	Role      string `json:"role,omitempty"`
	// Rotated is set if another text of the same key follows it, so that the id stays.
	Rotated bool `json:"-"`

	Made   Instant `json:"-"` // when its making was acknowledged
	Ending Instant `json:"-"` // start of the first call that may end it; 0: there was none
	Ended  Instant `json:"-"` // when its end was acknowledged; 0: never
}

// The questions of trials.
const (
	AskOwn     = "own"     // a call that the key allows, and that needs no quorum
	AskForeign = "foreign" // a list of another namespace's tasks
	AskBeyond  = "beyond"  // a call that needs another role than the key has
	AskNothing = "nothing" // a call without a key

	// The questions of attacks, of which no one has a key.

	AskForged   = "forged"   // a settle with a receipt that no lease of the called queue gave
	AskBeside   = "beside"   // a call over a kept connection, while another caller holds half-sent requests open
	AskAside    = "aside"    // after a start with a damaged file; 200: the file was set aside, 404: it was not
	AskMinority = "minority" // GET /readyz of a node that has had no majority for long
	AskNever    = "never"    // a schedule whose calendar is closed on each day
	AskPrinted  = "printed"  // a command that prints a task with a label of HostileText
)

// HostileText has characters that a terminal obeys, and a line that looks like one of a command's output.
const HostileText = "a\x1b[2J\u009b31m\u202eb\r\n" + ForgedLine

// ForgedLine is the second line of HostileText.
const ForgedLine = "state  forged"

// NoEntry is the entry of a trial without a key.
const NoEntry = -1

// Trial is a call to one node that shows which callers the node lets in, or what an attack gains.
type Trial struct {
	Ask    string  `json:"ask"`
	Entry  int     `json:"entry"` // place of the key's text in History.Entries
	Node   string  `json:"node"`
	Status int     `json:"status,omitempty"` // 0: no answer
	Text   string  `json:"text,omitempty"`   // the error, the output (of AskPrinted) or the next occurrence (of AskNever)
	Start  Instant `json:"start"`
	End    Instant `json:"-"`
}

// Roll is a list that a node gave. A list of tasks is one page of a namespace.
type Roll struct {
	Kind      string   `json:"kind"`
	Node      string   `json:"node"`
	Namespace string   `json:"namespace,omitempty"`
	IDs       []string `json:"ids,omitempty"`   // of keys or namespaces
	Wrote     []int64  `json:"wrote,omitempty"` // operations that the payloads of the tasks name
	Start     Instant  `json:"start"`
	End       Instant  `json:"-"`
}

// Enter records that an entry's making was acknowledged now, and returns the entry's number.
func (r *Recorder) Enter(e Entry) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Made = r.Now()
	r.h.Entries = append(r.h.Entries, e)
	n := len(r.h.Entries) - 1
	r.write(line{At: e.Made, N: n, Entry: &e})
	return n
}

// Ending records that a call starts now that may end entry n. rotated is set if the call makes another text.
func (r *Recorder) Ending(n int, rotated bool) {
	stage := "ending"
	if rotated {
		stage = "rotating"
	}
	r.end(n, stage, func(e *Entry, at Instant) { e.Ending, e.Rotated = at, rotated })
}

// Ended records that the end of entry n was acknowledged now.
func (r *Recorder) Ended(n int) { r.end(n, "ended", func(e *Entry, at Instant) { e.Ended = at }) }

func (r *Recorder) end(n int, stage string, set func(*Entry, Instant)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.Now()
	set(&r.h.Entries[n], at)
	r.write(line{At: at, N: n, Stage: stage})
}

// Try records a trial whose answer came now.
func (r *Recorder) Try(t Trial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.End = r.Now()
	r.h.Trials = append(r.h.Trials, t)
	r.write(line{At: t.End, Trial: &t})
}

// List records a list whose answer came now.
func (r *Recorder) List(l Roll) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.End = r.Now()
	r.h.Rolls = append(r.h.Rolls, l)
	r.write(line{At: l.End, Roll: &l})
}
