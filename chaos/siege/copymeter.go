package siege

import "time"

// copyMeter holds looks at how many bytes of copies each node has sent.
type copyMeter struct{ looks map[string][]copyLook }

type copyLook struct {
	at    time.Time
	bytes float64 // since the node's start
}

func newCopyMeter() *copyMeter { return &copyMeter{looks: map[string][]copyLook{}} }

func (m *copyMeter) add(node string, at time.Time, bytes float64) {
	m.looks[node] = append(m.looks[node], copyLook{at, bytes})
}

// sum returns the copies between the first look and the last one.
func (m *copyMeter) sum(over time.Duration) Copies {
	var c Copies
	var first, last time.Time
	for _, looks := range m.looks {
		sent := looks[len(looks)-1].bytes - looks[0].bytes
		if sent == 0 {
			continue
		}
		c.Senders++
		c.Bytes += sent
		c.Fastest = max(c.Fastest, fastest(looks, over))
		begun, ended := sending(looks)
		if first.IsZero() || begun.Before(first) {
			first = begun
		}
		if ended.After(last) {
			last = ended
		}
	}
	c.Took = last.Sub(first)
	return c
}

// sending returns the last look before the first byte and the first look after the last one.
func sending(looks []copyLook) (begun, ended time.Time) {
	for i := 1; i < len(looks); i++ {
		if looks[i].bytes == looks[i-1].bytes {
			continue
		}
		if begun.IsZero() {
			begun = looks[i-1].at
		}
		ended = looks[i].at
	}
	return begun, ended
}

// fastest returns the largest rate between two looks that are at least so far apart.
func fastest(looks []copyLook, over time.Duration) (rate float64) {
	from := 0
	for _, to := range looks {
		for from+1 < len(looks) && to.at.Sub(looks[from+1].at) >= over {
			from++
		}
		if apart := to.at.Sub(looks[from].at); apart >= over {
			rate = max(rate, (to.bytes-looks[from].bytes)/apart.Seconds())
		}
	}
	return rate
}
