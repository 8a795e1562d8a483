package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// settlement is one receipt of a settle with its command, or the reason why there is none.
type settlement struct {
	receipt string // as it was sent
	id      string // the task's id; empty if the receipt is unreadable
	cmd     *fsmpb.Command
	refused *problem
}

// settle ends or extends leases, and answers each receipt.
func (s *consumerService) settle(c echo.Context) error {
	body, err := bind(c, s.bounds.SettleBytes, jsonType)
	defer body.release()
	if err != nil {
		return err
	}
	from, err := s.laneOf(c)
	if err != nil {
		return err
	}
	asked, err := parseSettle(body.data, from)
	if err != nil {
		return err
	}
	replies, err := s.doOnce(c.Request().Context(), settleCommands(asked))
	if err != nil {
		return err
	}
	buffer := s.buffers.get()
	defer s.buffers.put(buffer)
	b := append(*buffer, `{"results":`...)
	b = append(s.appendResults(b, asked, replies), "}\n"...)
	writeJSON(c.Response(), http.StatusOK, b)
	*buffer = b
	return nil
}

// settleCommands returns the settlements' commands in order. Do keeps the order for each task.
func settleCommands(asked []settlement) []*fsmpb.Command {
	commands := make([]*fsmpb.Command, 0, len(asked))
	for _, a := range asked {
		if a.cmd != nil {
			commands = append(commands, a.cmd)
		}
	}
	return commands
}

// appendResults appends an array with a result for each receipt.
func (s *consumerService) appendResults(b []byte, asked []settlement, replies []task.Reply) []byte {
	b = append(b, '[')
	for i, a := range asked {
		if i > 0 {
			b = append(b, ',')
		}
		refused, replaced := a.refused, false
		if refused == nil {
			refused, replaced = s.settleProblem(replies[0])
			replies = replies[1:]
		}
		b = a.appendResult(b, refused, replaced)
		s.metrics.settled(refused)
	}
	return append(b, ']')
}

// settleProblem returns the reason why a lease was not settled. It returns nil if the lease was settled, or if the task
// was scheduled anew, since no lease is left to settle then.
func (s *consumerService) settleProblem(reply task.Reply) (_ *problem, replaced bool) {
	if reply.Err == nil && reply.Result.Code == fsmpb.Code_CODE_REPLACED {
		return nil, true
	}
	if reply.Err == nil {
		return resultProblem(reply.Result), false
	}
	p := problemOf(reply.Err)
	if p.kind == internalError {
		s.logger.Error("settle failed", "err", reply.Err)
	}
	return p, false
}

func (a settlement) appendResult(b []byte, refused *problem, replaced bool) []byte {
	status, begin := http.StatusOK, len(b)
	if refused != nil {
		status = refused.status
	}
	b = contract.AppendText(b, contract.Receipt, a.receipt)
	b = appendHead(b, a.id, status)
	if replaced {
		b = contract.AppendText(b, contract.Outcome, "replaced")
	}
	if refused != nil {
		b = appendProblem(contract.AppendName(b, contract.Problem), refused)
	}
	return contract.Close(b, begin)
}
