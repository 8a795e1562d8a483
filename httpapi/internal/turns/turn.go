package turns

// pieceBytes is the length of a piece of a Turn: about a quarter of a millisecond of parsing.
const pieceBytes = 16 << 10

// Turn cuts the work of one goroutine into pieces. One goroutine uses it at a time.
type Turn struct {
	gate      *Gate
	namespace string
	atWork    bool
	left      int // bytes of the present piece
}

// Turn returns a turn of a namespace, which is not at work.
func (g *Gate) Turn(namespace string) *Turn { return &Turn{gate: g, namespace: namespace} }

// Work announces work on some bytes. When the present piece is used up, others go first, so Work may wait. The caller
// must call Pause before it waits for anything else, and at the end.
func (t *Turn) Work(bytes int) {
	if t.left <= 0 {
		t.Pause()
	}
	if !t.atWork {
		t.gate.Enter(t.namespace, pieceBytes)
		t.atWork, t.left = true, pieceBytes
	}
	t.left -= bytes
}

// Pause ends the present piece, if there is one.
func (t *Turn) Pause() {
	if t.atWork {
		t.atWork = false
		t.gate.Leave()
	}
}
