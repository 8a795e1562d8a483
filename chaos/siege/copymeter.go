package siege

import "time"

// copyMeter holds looks at how many bytes of copies each node has sent.
type copyMeter struct{ looks map[string][]copyLook }

// copyLook is one look at a node's counter. The node read it at some instant between the request and the answer.
type copyLook struct {
	asked, answered time.Time
	bytes           float64 // since the node's start
}

func newCopyMeter() *copyMeter { return &copyMeter{looks: map[string][]copyLook{}} }

func (m *copyMeter) add(node string, look copyLook) { m.looks[node] = append(m.looks[node], look) }

// sum returns the copies between the first look and the last one, beside a rate in bytes a second.
func (m *copyMeter) sum(rate float64) Copies {
	var c Copies
	var first, last time.Time
	for _, looks := range m.looks {
		sent := looks[len(looks)-1].bytes - looks[0].bytes
		if sent == 0 {
			continue
		}
		c.Senders++
		c.Bytes += sent
		c.Excess = max(c.Excess, excess(looks, rate))
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
			begun = looks[i-1].answered
		}
		ended = looks[i].answered
	}
	return begun, ended
}

// excess returns the most bytes between two looks that the rate does not account for, even if the first value is as old
// and the second one as new as it can be.
func excess(looks []copyLook, rate float64) (most float64) {
	for i, from := range looks {
		for _, to := range looks[i+1:] {
			most = max(most, to.bytes-from.bytes-rate*to.answered.Sub(from.asked).Seconds())
		}
	}
	return most
}
