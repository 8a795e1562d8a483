package admission

import "time"

// mixedFor is how long names count as mixed after the last change from one name to another.
const mixedFor = time.Second

// Mix finds out whether work of several names comes, or that of one alone. It is not safe for concurrent use.
type Mix struct {
	Now func() time.Time // is called only when names are mixed

	newest string    // the last name
	mixed  time.Time // last change from one name to another; zero: there was none
}

// Note notes a piece of work of a name. Empty names do not count.
func (m *Mix) Note(name string) {
	if name == m.newest || name == "" {
		return
	}
	if m.newest != "" {
		m.mixed = m.Now()
	}
	m.newest = name
}

// IsMixed reports whether work of several names has come in the last second.
func (m *Mix) IsMixed() bool { return !m.mixed.IsZero() && m.Now().Sub(m.mixed) < mixedFor }
