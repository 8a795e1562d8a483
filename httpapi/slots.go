package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// mostShards is the largest number of a shard.
const mostShards = 256

// SlotList is slots in their order. Its text has ranges with both of their ends: "0-511,1024".
type SlotList []SlotRange

// MarshalJSON returns the text as a JSON string.
func (l SlotList) MarshalJSON() ([]byte, error) { return json.Marshal(l.String()) }

// String returns the text.
func (l SlotList) String() string {
	parts := make([]string, len(l))
	for i, r := range l {
		if parts[i] = strconv.Itoa(int(r.First)); r.End > r.First+1 {
			parts[i] += "-" + strconv.Itoa(int(r.End)-1)
		}
	}
	return strings.Join(parts, ",")
}

const slotsRule = `ranges of 0 to 4095, like "0-511,1024"`

// slotList reads slots, and puts their ranges in order.
func slotList(r *contract.Reader) (SlotList, error) {
	text, err := r.Text("slots")
	if err != nil {
		return nil, err
	}
	var list SlotList
	for part := range strings.SplitSeq(text, ",") {
		one, ok := parseSlots(strings.TrimSpace(part))
		if !ok {
			return nil, &task.FieldError{
				Field: "slots", Detail: fmt.Sprintf("%q are no slots", contract.Clip(part)), Limit: slotsRule,
			}
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b SlotRange) int { return cmp.Compare(a.First, b.First) })
	return list.joined()
}

// parseSlots reads "7" or "0-511".
func parseSlots(text string) (SlotRange, bool) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	a, errA := strconv.ParseUint(first, 10, 16)
	b, errB := strconv.ParseUint(last, 10, 16)
	return SlotRange{First: uint32(a), End: uint32(b) + 1}, errA == nil && errB == nil && a <= b && b < task.Slots
}

// joined returns the list with ranges joined that follow each other. A slot that is there twice is an error.
func (l SlotList) joined() (SlotList, error) {
	var joined SlotList
	for _, r := range l {
		switch last := len(joined) - 1; {
		case last >= 0 && r.First < joined[last].End:
			return nil, &task.FieldError{
				Field: "slots", Detail: fmt.Sprintf("slot %d is there twice", r.First), Limit: slotsRule,
			}
		case last >= 0 && r.First == joined[last].End:
			joined[last].End = r.End
		default:
			joined = append(joined, r)
		}
	}
	return joined, nil
}

// shardNumber reads the number of a shard, or a number of shards.
func shardNumber(r *contract.Reader, name string) (uint32, error) {
	n, err := r.Whole(name, 1, mostShards)
	return uint32(n), err
}

func (s *Server) splitShard(c echo.Context) error {
	n, err := strconv.ParseUint(c.Param("shard"), 10, 32)
	if err != nil || n < 1 || n > mostShards {
		return &task.FieldError{
			Field: "shard", Detail: fmt.Sprintf("%q is no number of a shard", contract.Clip(c.Param("shard"))),
			Limit: fmt.Sprintf("1 to %d", mostShards),
		}
	}
	r := OperationRequest{Kind: splitShard, Shard: uint32(n)}
	if err := s.readOperation(c, &contract.OperationObject, &r); err != nil {
		return err
	}
	return s.begin(c, r)
}

func (s *Server) moveSlots(c echo.Context) error {
	r := OperationRequest{Kind: moveSlots}
	if err := s.readOperation(c, &contract.MoveSlotsObject, &r); err != nil {
		return err
	}
	switch {
	case len(r.Slots) == 0:
		return &task.FieldError{Field: "slots", Detail: "is absent", Limit: slotsRule}
	case r.To == 0:
		return &task.FieldError{Field: "to", Detail: "is absent", Limit: "the number of a shard"}
	}
	return s.begin(c, r)
}

func (s *Server) balanceShards(c echo.Context) error {
	r := OperationRequest{Kind: balanceShards}
	if err := s.readOperation(c, &contract.BalanceObject, &r); err != nil {
		return err
	}
	return s.begin(c, r)
}
