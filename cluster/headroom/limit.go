package headroom

import (
	"fmt"
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// leastLimit is the memory that a node with a few tasks needs, in bytes.
	leastLimit = 64 << 20
	// defaultPercent is the node's share of the available memory. The rest is for the system, which needs some for
	// files, and for other processes.
	defaultPercent = 75
)

// Limit is a bound on a node's memory as configured. The zero Limit is the default one.
type Limit struct {
	amount Amount // number of bytes, or part of the available memory
	given  bool
}

// ParseLimit reads a number of bytes ("2GiB"), a part of the available memory ("50%"), "0" for no limit, or "" for the
// default.
func ParseLimit(text string) (Limit, error) {
	if text == "" {
		return Limit{}, nil
	}
	amount, err := ParseAmount(text)
	if err != nil {
		return Limit{}, err
	}
	l := Limit{amount: amount, given: true}
	if bytes := amount.Of(0); bytes > 0 && bytes < leastLimit {
		return Limit{}, fmt.Errorf("%q is too little: a node needs %s", text, FormatBytes(leastLimit))
	}
	return l, nil
}

// Allowance is a limit in bytes, and its source in words for people. 0 bytes: no limit.
type Allowance struct {
	Bytes int64
	From  string
}

// Find returns the limit in bytes. The default is the runtime's (GOMEMLIMIT) if set, else three quarters of the
// available memory: the control group's, version 1 or 2, or the machine's. It returns an error, and no limit, if the
// available memory is not known.
func (l Limit) Find() (Allowance, error) {
	if bytes := l.amount.Of(0); l.given && bytes > 0 {
		return Allowance{int64(bytes), "as told"}, nil
	}
	if l.given && l.amount.Of(math.MaxUint32) == 0 {
		return Allowance{From: "as told"}, nil
	}
	if bytes := debug.SetMemoryLimit(-1); !l.given && bytes < math.MaxInt64 {
		return Allowance{bytes, "GOMEMLIMIT"}, nil
	}
	total, of, err := available()
	if err != nil {
		return Allowance{From: "not known"}, err
	}
	part := total / 100 * defaultPercent
	if l.given {
		part = l.amount.Of(total)
	}
	from := fmt.Sprintf("%d%% of the %s of %s", (part*100+total/2)/total, FormatBytes(total), of)
	return Allowance{max(int64(part), leastLimit), from}, nil
}

// available returns the memory that this process could use at most.
func available() (bytes uint64, of string, err error) {
	bytes, err = memlimit.FromSystem()
	of = "the machine"
	if err != nil {
		err = fmt.Errorf("how much memory the machine has is not known: %w", err)
	}
	// The machine's memory counts without a control group, or without a limit in it.
	if group, groupErr := memlimit.FromCgroup(); groupErr == nil && group > 0 && (err != nil || group < bytes) {
		return group, "the control group", nil
	}
	return bytes, of, err
}
