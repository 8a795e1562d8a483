package client

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

func TestFollowUpTravels(t *testing.T) {
	task := Task{ID: "a", Delay: time.Second, OnDead: &FollowUp{
		Task: Task{Queue: "duty", Delay: time.Minute, Payload: json.RawMessage("{\n\"n\":\n12345678901234567890}")},
	}, OnDelivered: &FollowUp{KeepAnswer: true, Task: Task{OnDead: &FollowUp{}}}}
	fields, err := appendTask(nil, &task)
	assert.NoError(t, err)
	assert.Equal(t, string(fields), `,"delay":"1s","on_delivered":{"keep_answer":true,"on_dead":{}},`+
		`"on_dead":{"queue":"duty","delay":"1m","payload":{"n":12345678901234567890}}`)

	text, err := task.MarshalJSON()
	assert.NoError(t, err)
	var read Task
	assert.NoError(t, json.Unmarshal(text, &read))
	assert.Equal(t, string(read.OnDead.Payload), `{"n":12345678901234567890}`)
	assert.Equal(t, read.OnDead.Delay, time.Minute)
	assert.Equal(t, read.OnDelivered.KeepAnswer, true)
	assert.Equal(t, read.OnDelivered.OnDead != nil, true)

	m, err := Patch{OnDead: task.OnDead}.fields()
	assert.NoError(t, err)
	text, err = json.Marshal(m)
	assert.NoError(t, err)
	assert.Equal(t, string(text), `{"on_dead":{"delay":"1m","payload":{"n":12345678901234567890},"queue":"duty"}}`)
}

func TestFollowUpHasNoTime(t *testing.T) {
	for _, wrong := range []Task{{ID: "b"}, {FireAt: time.Unix(1, 0)}, {Jitter: 1}} {
		_, err := appendTask(nil, &Task{OnDead: &FollowUp{Task: wrong}})
		assert.ErrorIs(t, err, errFollowUp)
	}
}
