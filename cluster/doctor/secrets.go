package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// audit finds nodes whose audit log is not written.
func (e *examination) audit() {
	for _, n := range e.Nodes {
		if n.AuditFault != "" {
			e.add(Warning, AuditFailing, sentence("the audit log of node %s is not written: %s. Changes through the node are "+
				"refused once its memory for their records is full.", n.Name, n.AuditFault), "df -h")
		}
	}
}

// secrets finds keys that are missing or idle, and secrets in the clear.
func (e *examination) secrets() {
	for _, key := range slices.Sorted(maps.Keys(e.Secrets.Sealed)) {
		e.missingKey(key, "the secrets of "+queuesOf(e.Secrets.Sealed[key])+" are sealed: tasks of these queues")
	}
	for _, key := range slices.Compact(slices.Sorted(slices.Values(e.Secrets.Tokens))) {
		if key != "" {
			e.missingKey(key, "the keys of tokens are sealed: tasks with target.auth.jwt")
		}
	}
	if plain := e.Secrets.Plain; plain > 0 && e.Secrets.Key == "" {
		e.add(Note, SecretsPlain, fmt.Sprintf("The secrets of %s are stored in the clear in logs, snapshots and backups: "+
			"no node has a cluster key. Start each node with --cluster-key-file and a copy of one file.", queuesOf(plain)),
			"(umask 077; openssl rand -base64 32 > cluster.key)")
	}
	e.idleKeys()
}

// longUnused is the time without a use after which a key is reported.
const longUnused = 90 * 24 * time.Hour

// apiKeys finds keys of callers that have long not been used.
func (e *examination) apiKeys() {
	var unused []APIKey
	for _, k := range e.APIKeys {
		if k.Unused >= longUnused {
			unused = append(unused, k)
		}
	}
	if len(unused) == 0 {
		return
	}
	oldest := slices.MaxFunc(unused, func(a, b APIKey) int { return cmp.Compare(a.Unused, b.Unused) })
	e.add(Note, KeysUnused, sentence("%d %s not been used for %d days or more; key %s for the longest time: %d days. "+
		"Revoke a key that has no caller any more.", len(unused), verb(len(unused), "key has", "keys have"),
		days(longUnused), oldest.ID, days(oldest.Unused)), "belfry key list", command("belfry key revoke", oldest.ID))
}

func days(d time.Duration) int { return int(d / (24 * time.Hour)) }

// missingKey finds nodes without a key. sealed says what the key seals, and which tasks are not sent without it.
func (e *examination) missingKey(key, sealed string) {
	var without []string
	for _, n := range e.Nodes {
		if n.Answers && n.Build != "" && n.Waits == "" && !slices.Contains(n.ClusterKeys, key) {
			without = append(without, n.ID)
		}
	}
	if len(without) > 0 {
		e.add(Critical, ClusterKeyMissing, sentence("%s %s cluster key %s, under which %s are not sent by shards that %s. "+
			"Give the nodes the --cluster-key-file of the others.", e.names(without), verb(len(without), "lacks", "lack"),
			key, sealed, verb(len(without), "it leads", "they lead")))
	}
}

func queuesOf(n int) string { return fmt.Sprintf("%d %s", n, verb(n, "queue", "queues")) }

// idleKeys finds keys beside the sealing one that seal nothing any more.
func (e *examination) idleKeys() {
	if e.Secrets.Key == "" || e.Secrets.Plain > 0 {
		return
	}
	idle := map[string][]string{} // nodes by key
	for _, n := range e.Nodes {
		for _, key := range n.ClusterKeys[min(1, len(n.ClusterKeys)):] {
			if key != e.Secrets.Key && e.Secrets.Sealed[key] == 0 && !slices.Contains(e.Secrets.Tokens, key) {
				idle[key] = append(idle[key], n.ID)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(idle)) {
		e.add(Note, ClusterKeyIdle, sentence("no secret is sealed under cluster key %s any more. Its line can be removed "+
			"from the key %s of %s. Keep a copy for as long as you keep backups of that time, or put the line first to seal "+
			"under it.", key, verb(len(idle[key]), "file", "files"), e.names(idle[key])), "belfry doctor")
	}
}
