package memory

import (
	"fmt"
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/belfryhq/belfry/cluster/size"
)

const (
	// leastLimit is what a node needs that holds a few tasks.
	leastLimit = 64 << 20
	// defaultPercent of the memory that there is are the node's. The rest is the system's, which needs some for files, and
	// that of whatever else runs there.
	defaultPercent = 75
)

// Limit is how much memory a node may use, as it was asked for. The zero Limit is the default one.
type Limit struct {
	amount size.Amount // a number of bytes, or a part of what there is
	given  bool
}

// ParseLimit reads a number of bytes ("2GiB"), a part of the memory that there is ("50%"), "0" for no limit, or "" for
// the default.
func ParseLimit(text string) (Limit, error) {
	if text == "" {
		return Limit{}, nil
	}
	amount, err := size.Parse(text)
	if err != nil {
		return Limit{}, err
	}
	l := Limit{amount: amount, given: true}
	if bytes := amount.Of(0); bytes > 0 && bytes < leastLimit {
		return Limit{}, fmt.Errorf("%q is too little: a node needs %s", text, size.Format(leastLimit))
	}
	return l, nil
}

// Allowance is a limit in bytes, and where it comes from, for people. 0 bytes: there is none.
type Allowance struct {
	Bytes int64
	From  string
}

// Find turns a limit into bytes. The default is that of the runtime, if it has one (GOMEMLIMIT), else three quarters of
// the memory that there is: what the control group allows, version 1 or 2, or what the machine has. The error says why
// that is not known; then there is no limit.
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
	from := fmt.Sprintf("%d%% of the %s of %s", (part*100+total/2)/total, size.Format(total), of)
	return Allowance{max(int64(part), leastLimit), from}, nil
}

// available is the memory that this process could use at most.
func available() (bytes uint64, of string, err error) {
	bytes, err = memlimit.FromSystem()
	of = "the machine"
	if err != nil {
		err = fmt.Errorf("how much memory the machine has is not known: %w", err)
	}
	// Without a control group, or without a limit in it, the machine's counts.
	if group, groupErr := memlimit.FromCgroup(); groupErr == nil && group > 0 && (err != nil || group < bytes) {
		return group, "the control group", nil
	}
	return bytes, of, err
}
