package imports

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"regexp"
	"strings"

	"github.com/belfryhq/belfry/client"
)

// Crontab reads the lines of a crontab as schedules, whose payload is the command: {"command": "…"}, with the members
// stdin, user and environment if the line has them.
type Crontab struct {
	In       io.Reader
	TimeZone string // of lines without CRON_TZ; empty: UTC
	System   bool   // the lines name a user in front of the command, as those of /etc/crontab do
	Prefix   string // of all ids
	Queue    string // empty: "default"
}

// job is the payload of a schedule.
type job struct {
	Command     string            `json:"command"`
	Stdin       string            `json:"stdin,omitempty"`
	User        string            `json:"user,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
}

// assignment is a line that sets a variable for the lines below it.
var assignment = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$`)

const zoneVariable = "CRON_TZ"

// Records implements Source.
func (s Crontab) Records(context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		environment := map[string]string{}
		for line, err := range lines(s.In) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			text := string(bytes.TrimSpace(line.text))
			if line.err == nil && (text == "" || text[0] == '#') {
				continue
			}
			if set := assignment.FindStringSubmatch(text); set != nil && line.err == nil {
				environment[set[1]] = unquoted(set[2])
				continue
			}
			record := Record{Key: line.name(), Text: text, Err: line.err}
			if record.Err == nil {
				record.Schedule, record.Err = s.schedule(text, environment)
			}
			if !yield(record, nil) {
				return
			}
		}
	}
}

// unquoted returns the value of a variable without the quotes around it.
func unquoted(value string) string {
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}

var (
	errReboot    = errors.New("@reboot has no counterpart: a schedule belongs to no machine")
	errNoCommand = errors.New("the line has no command behind its time")
)

const maxNote = 255 // bytes, as in the API

// schedule reads a line with a command.
func (s Crontab) schedule(text string, environment map[string]string) (*client.Schedule, error) {
	fields := 5
	if text[0] == '@' {
		fields = 1
	}
	var rule []string
	for range fields {
		var field string
		field, text = cutField(text)
		rule = append(rule, field)
	}
	j := job{Environment: maps.Clone(environment)}
	if s.System {
		j.User, text = cutField(text)
	}
	if rule[0] == "@reboot" {
		return nil, errReboot
	}
	if text == "" {
		return nil, errNoCommand
	}
	j.Command, j.Stdin = splitCommand(text)
	zone := s.TimeZone
	if own, named := environment[zoneVariable]; named {
		zone = own
	}
	delete(j.Environment, zoneVariable)
	payload, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	expression := strings.Join(rule, " ")
	note := strings.ToValidUTF8(j.Command, "?")
	return &client.Schedule{
		ID:     StableID(s.Prefix, fmt.Sprint("crontab ", zone, " ", expression, " ", string(payload))),
		Repeat: client.Repeat{Cron: []string{expression}, TimeZone: zone},
		Note:   strings.ToValidUTF8(note[:min(len(note), maxNote)], ""),
		Task:   client.Task{Queue: s.Queue, Payload: payload},
	}, nil
}

// cutField returns the first word of a text, and the rest without the space in front.
func cutField(text string) (field, rest string) {
	end := strings.IndexAny(text, " \t")
	if end < 0 {
		return text, ""
	}
	return text[:end], strings.TrimLeft(text[end:], " \t")
}

// splitCommand splits a command at its first percent sign, behind which cron has the standard input with percent signs
// for the ends of lines. A backslash takes the meaning from a percent sign.
func splitCommand(text string) (command, stdin string) {
	var parts [2]strings.Builder
	part := 0
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == '%':
			i++
			parts[part].WriteByte('%')
		case text[i] == '%' && part == 0:
			part = 1
		case text[i] == '%':
			parts[1].WriteByte('\n')
		default:
			parts[part].WriteByte(text[i])
		}
	}
	return parts[0].String(), parts[1].String()
}
