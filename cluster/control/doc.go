// Package control runs the control group: Raft group 0 (see package raftgroup). Every node has a replica of it. The
// group's state holds the decisions of the whole cluster:
//
//	nodes      the members, their addresses, the build that each runs
//	slots      which shard owns which slots, and the moves of slots between shards
//	shards     which nodes hold which shard
//	operations orders of operators: nodes to drain or remove, the replication factor, slots to move
//	queues     the queues' policies
//	tokens     the one-time tokens of new nodes, as hashes
//	keys       the keys of callers, as hashes, and whether calls need one
//	receipts   the secret under which nodes sign the receipts of leases
//	jwt keys   the keys by which nodes sign the tokens of webhooks: see package jwtkeys
//	namespaces the namespaces of callers, also during their deletion
//	bulks      one call on many tasks or schedules, page by page
//
// The voters of the group are the nodes that formed the cluster; three or five of the nodes after others have joined
// (see placement.Voters). All other nodes are non-voters. Each node reads the state from its own replica. That state
// may be a little old, but unlike gossip it is always a committed decision.
//
// # Changes
//
// A node changes the state by Replica.Change. The change is a ControlEntry as the node describes it:
//
//	             asking node                  leader                      every replica
//	Change ──→ commit: finds the leader ──→ Group.Change: prepare ──→ log ──→ apply
//	           await  ←─────────────────────── answer ←─────────────────────┘
//
//	step     does                                                              fails with
//	prepare  checks the limits, sets times, ids and seals; drops the entry if  the field's error, or the reason why
//	         nothing is to change                                              the change is impossible
//	apply    makes the next state, or refuses; tells the answer by the states  the reason
//	         before and after
//	commit   asks the named leader, else waits a little; repeats what was not  ErrNotProposed or ErrUnknown at the
//	         proposed, and what is unknown if a repeat has no further effect   deadline; the reason
//	await    waits until this node has applied the entry and, for queues and   never: a late node reads the same log
//	         access, until all live nodes obey it; a second at most
//
// One table, kinds, holds the command version of each kind of entry and its functions: apply for all kinds; prepare,
// answer and the rule for repeats for the kinds of changes. The loops of the leader write the other kinds. To add a
// kind: its message in control.proto, its functions in the file of its subject, its row in the table.
//
// A repeat after an unknown outcome finds the work of the first try. The answer to it therefore says whether the
// subject existed as the asking node knew it before the first try. A node that is not in the cluster yet registers by a
// call of its own (Peer.Register), which a member turns into a change.
//
// Why not let each subject have its call, its answer and its search for the leader? There were seven, which differed in
// the errors that they passed on and in the outcomes that they repeated.
//
// # Steps
//
// The group's leader brings the cluster into its shape. Three loops look at the cluster and take steps, and a fourth
// drives the moves of slots:
//
//	            decides by                          package  its steps
//	reconciler  state, members of this group,       reshape  entries (targets, ends of operations), changes of this
//	            nodes up and away                            group's members
//	mover       record of a shard, members of its   reshape  entries (replicas), changes of the shard's group at the
//	            group, what its new replica applied          shard's leader
//	mender      replicas that their nodes report to be       entries (Mend); the mover does the rest
//	            outvoted or unreadable
//
// The steps keep these rules:
//
//   - A step may be repeated: after a crash or a change of leader the loops simply look again.
//   - The leader judges where a decision needs judgement (where to place a shard), and commits the outcome. So replicas
//     of different builds cannot differ.
//   - The steps of one shard follow each other. No shard waits for another, except for its turn: at most movesAll
//     replicas are copied at a time, and movesNode to one node.
//   - A step that cannot be taken is reported with the reason: Shape.
//   - One faulty replica is mended at a time over the cluster, after its fault has lasted for the time of calm, if the
//     shard has a majority of sound replicas in touch without it, and each at most once in mendAgain.
//   - Once nothing else is to do, leaders of busy shards change places: loads measures the shards' rates over minutes.
//
// # Moves of slots
//
// A split makes a new shard on the nodes of an old one, and moves half of the slots to it. There is one way to move
// slots, driven by SlotMover. Its steps, the log that gets each, and the state that a crash after it leaves:
//
//	   step          log      after it                                    then, after a crash
//	1  Split         control  the new shard, empty; COPYING               nodes open its replicas; go on
//	   or MoveSlots
//	2  ExpectSlots   target   the slots are coming                        the step is repeated
//	3  ImportTasks   target   copies; the source goes on as ever          copy on, or 9 if a leader of them changed
//	4  SealSlots     source   calls on the slots wait                     copy the rest, or 9 after 2 s
//	5  ReadySlots    target   the copies equal the source's tasks         the step is repeated
//	6  TurnMove      control  OPENING: the target owns the slots          go on; there is no way back
//	7  OpenSlots     target   the target takes calls, and fires           the step is repeated
//	8  DropSlots     source   callers are told the new place; EndMove     the step is repeated
//	9  TurnMove      control  GIVING_UP: the source keeps the slots       go on
//	10 UnsealSlots   source   the source takes calls again                the step is repeated
//	11 AbandonSlots  target   no copies; EndMove begins the move anew     the step is repeated
//
// Rules of the moves:
//
//   - Views show the step under way: expect (2), copy, seal, ready, decide (6), open, drop, give_up (9), unseal,
//     abandon, and end for the EndMove of 8 and 11.
//   - TurnMove decides, once. Before it nothing that the target does counts; after it nothing that the source does.
//   - The number of the move is in each step, and is the epoch of the slots in the target. A step of an older move is
//     refused by the shards.
//     That holds also for a step that arrives after its move was given up: 10 and 11 leave the number at the slots.
//   - Steps 3 to 5 are the work of the two leaders (see package shard), at the request of the driver.
//   - Calls wait from 4 to 7, in which three entries are committed: some tens of milliseconds.
//   - A lease or an attempt that runs goes on. Its settle may be among the calls that wait, so that it ends a second
//     after step 7 or 10 at the earliest, even if its own end came meanwhile.
//   - A move that was given up eight times ends. The shards are then as before, and a new shard stays empty. The
//     operation that it belongs to begins it anew.
//
// # Shards that split by themselves
//
// With AutoSplit, the leader begins an operation SPLIT once a shard has been above the limit for the time of calm. The
// operation records its cause, and is like any other from then on. A split begins only if
//
//   - no operation and no move of replicas or slots is under way;
//   - all nodes answer, and those of the shard have memory and disk for the copy;
//   - a minute has passed since the last operation on slots (six times the calm), or an hour if an operator has stopped
//     an automatic split;
//   - the cluster has fewer shards than allowed.
//
// Why bytes, not tasks? The memory of a shard's tasks decides what a replica costs: on its node, in each snapshot,
// after a restart and in a copy. Tasks differ a thousandfold in size. Free memory does not count, since a shard keeps
// that of the tasks that have moved away. Why not commands a second? They vary from hour to hour, and shards are not
// merged again.
//
// # Operations
//
//   - The leader judges an operation before it is committed, by the placement that would follow. An operation that
//     could not end is refused with an ImpossibleError; so none hangs from its beginning on.
//   - An operation is done when the state shows that it is. Its entry End is that fact, and removes the node of a
//     removal in the same moment.
//   - A request for an operation that is under way, on the same node and for the same, begins none: it gets that one.
//   - An operation on slots (SPLIT, MOVE_SLOTS, BALANCE) records where its slots should be. The reconciler compares the
//     record with the slot map, and begins moves until both are equal; so any leader goes on with it. Each slot moves
//     once: a new shard gets its slots from their present owners, and no shard is halved again and again.
//   - One operation on slots is under way at a time, because each is planned on the slot map that the one before
//     leaves. KEEP_SLOTS ends it: moves under way go on to their ends, and no other begins.
//   - A resting node (REST) keeps its replicas, and leads neither shards nor this group while another node can. Its
//     shards hand over at once, because it counts as reluctant to lead; see package health.
//   - A removed node never registers again: its data may be old, and its votes are forgotten.
//
// # Policies on a node
//
// Policies changes the queues' policies and the calendars at any node, and gives the present ones, from the state in
// memory, to the shards here. Both share one version: both take effect through the leaders of shards. InForce waits
// until this node knows a version and the shards that it leads obey it.
//
// Policies of the state may be sealed (see package seal). Callers and deliveries get them opened, and the leader of the
// group seals them again before it proposes a change. A node without the key still changes all but the secrets. Errors
// and logs contain no secret of a policy.
//
// # Keys and namespaces
//
//	change           refused if                                        a repeat
//	AddKey           a limit, maxKeys, a namespace that is not there   changes nothing (the same id and hash)
//	RemoveKey        never                                             changes nothing
//	RotateKey        two secrets are valid and would stay so           changes nothing (the same hash)
//	UseKeys          never                                             changes nothing (the same hour)
//	EnforceKeys      never                                             changes nothing
//	SetNamespace     a limit, maxNamespaces, it is being deleted       changes nothing
//	DeleteNamespace  it is the default one                             changes nothing
//	EndNamespace     it is not being deleted                           changes nothing (it is gone)
//
// Rules of keys and namespaces:
//
//   - The state has the SHA-256 of a key's whole text, which has 256 random bits. So a plain hash cannot be searched,
//     and a slow one would add nothing but a cost to each call.
//   - The first key puts keys in force, and so does EnforceKeys. No entry takes that back: the removal of the last key
//     opens nothing.
//   - A rotation adds a secret under the same id. The older one is valid for the overlap from then on. An overlap of 0
//     ends all older secrets, as after a leak. A third valid secret is refused: its addition would have to end one that
//     callers still have.
//   - A key that has expired stays listed for a month, so that an operator sees why callers are refused.
//   - The last use is kept to the hour, so that a key costs one entry an hour and not one a call.
//   - The default namespace always exists. The state has a record of it only for its quotas.
//   - Each grant of a key is for all namespaces, or for one that exists. EndNamespace therefore removes the grants for
//     its namespace: a later namespace of the same name must not let in the callers of the old one.
//   - A new namespace has no policies, also if a policy came while an earlier one of the name ended.
//   - A namespace that is being deleted keeps its policies until its tasks are gone, so that no paused queue fires.
//   - The deletion follows the namespace's state. Its operation only shows it: a restored cluster, which has no
//     operations, deletes on.
//   - A namespace beside others has at most half of the cluster's keys and policies. The leader checks that before it
//     proposes.
//   - Applying reads no clock and no limit that a caller is told about, except for maxKeys and maxNamespaces: limits
//     may differ from build to build.
//
// # Deletions of namespaces
//
// The leader erases the tasks of namespaces that are being deleted, and then removes the namespaces.
//
//	DeleteNamespace  the namespace refuses new work from now on; the operation begins
//	  1  every node says that it knows this
//	  2  a time of calm passes: calls under way end
//	  3  sweep: list the namespace's tasks, tombstones included, page by page; erase each page
//	  4  the sweep has found a task, or has failed: again from 3
//	EndNamespace     policies, grants and the namespace are removed; the operation ends
//
// Rules of deletions:
//
//   - Tasks are erased while the nodes of 1 are awaited. Only the last sweep, which finds nothing, must follow 1 and 2:
//     otherwise a task that a node took meanwhile would outlive its namespace, and appear in a later one of that name.
//   - A node that does not answer holds up the end, and not the erasure. The progress names it. An operator brings it
//     back or removes it from the cluster.
//   - Nothing is remembered. A new leader begins with another sweep, which finds only the tasks that are left.
//   - Deletions take turns, so that a small one does not wait for a large one. All together erase eraseRate tasks a
//     second, so that calls of other namespaces keep their time.
//   - A page is read through the leaders of the shards, and each task is erased by one command (fsm.Erase) through the
//     router. So a move of slots, a split or a failover in between changes nothing.
//
// Why not one command that erases a whole namespace in a shard? Applying it would stop the shard for as long as it has
// tasks of the namespace. Why not cancel the tasks? A tombstone stays, and a task that runs cannot be cancelled.
//
// # Bulk operations
//
// A bulk operation makes one call on every task of a namespace that passes a filter: it cancels, moves, patches, fires
// or replays the tasks, or removes dead letters. Or it pauses, resumes, deletes or patches schedules. The state has the
// record of each operation, and the leader carries the operation on.
//
//	   step                          log         after a crash
//	1  list the next page            -           the page is listed again
//	2  wait for the rate             -           likewise
//	3  pin the page: its tasks, and  PinBulk     the pinned tasks are read from the record
//	   where the walk goes on
//	4  make the calls                -           the calls are made again, with the same keys
//	5  count the outcomes            CountBulk   the next page is listed
//
// The operation is done once its last page is counted. A StopBulk ends it at once, or after step 5 if a page is pinned:
// the calls of that page may have been made.
//
//   - Each pinned task is counted once, because CountBulk names the page, and a page has at most one.
//   - Each call has a key made of the operation and the task. A repeat after a crash gets the recorded answer and
//     changes nothing. The walk passes each id once, so no task gets two calls.
//   - A removed dead letter has no record with an answer. A repeat of a purge that finds no task counts it as purged.
//   - A task that changes between steps 1 and 4 gets the outcome that its new state gives. A move by a duration,
//     and a patch of the target's URL, name the revision from the list, and read the task again after a change.
//   - A deleted schedule has no record either. A repeat deletes only a schedule of the same revision or, after a
//     change, of the same creation: one that was made anew after the first call stays.
//   - A patch of schedules reads each one, merges the patch, checks the rule, and sets the whole on the condition of
//     the revision.
//   - A patch does not lead stored credentials to another host: such a task is refused.
//   - A task that is created behind the walk is not seen. An operation on tasks passes schedules over, but not their
//     occurrences.
//   - All operations together make bulkRate calls a second. They wait for one limiter, and so take turns.
//   - The deletion of a namespace stops the operations in it, in the same entry of the log.
//
// Why not one command for each shard, applied by the state machine? It would stop the shard for as long as the walk
// takes. Why not count what the calls of a page changed without pinning it? After a crash, a repeated list would lack
// the tasks that no longer pass the filter, and their outcomes would be lost.
//
// # Command versions
//
// Builds of several versions run in one cluster while it is upgraded, node by node. One number, the command version,
// describes the entries of all logs: those of the shards and of this group.
//
//	Node.command_version          newest version that the node reads; an operator may hold it lower (--hold-version)
//	ControlState.command_version  the lowest of all nodes: the newest that may be written. It never falls
//	ControlEntry.version          lowest version that the entry needs (kinds), likewise fsmpb.Entry.version
//	ControlState.version          highest version among the applied entries, also in the snapshot's header
//
// The numbers keep these rules:
//
//   - The leader writes no entry that a registered node cannot read. It answers a BehindError, which names the nodes.
//   - The reconciler writes a Raise once all nodes read a newer version. From then on an older build refuses the log
//     and the snapshot of every node instead of misreading them. Before, each node may return to its older build,
//     because logs and snapshots have no newer parts.
//   - A lost node keeps the version from rising until it is waived (Begin.waive).
//   - Each entry has the version that brought its kind. So a cluster of two builds goes on with all that both read, and
//     only the newer operations wait.
//
// The build with the tag next reads one version more than the others. Tests upgrade a cluster to it.
//
// Why not a number for each kind of log? A node registers one number, so that all builds judge a registration alike.
// And an operator can understand one.
//
// # Admission
//
// In a cluster whose nodes show certificates, a Register carries the terms under which the leader judged it. Applying
// decides:
//
//	the node is                                it is let in
//	registered under the name that it has      always
//	a member of the group, and not registered  always: it forms the cluster
//	new, or registered under another name      with a token that is known, unused and not expired; that uses it up
//
// The token is never stored:
//
//   - The state has the SHA-256 of a token, which has 160 random bits. The node that makes a token sends only the hash
//     to the leader. A new node sends the token itself: a hash from a stolen snapshot lets no node in.
//   - Applying reads no clock: the terms have the leader's time. The log decides which of two nodes with one token
//     comes first.
//   - A repeated registration needs no token, since the node is registered by then.
//
// Why not a signed token, such as a JWT, that needs no state? A token that counts once needs state. Why not requests
// for certificates, as kubeadm and Vault take them? The authority's key would lie on the nodes.
//
// # Policies
//
//   - There are at most MaxQueues policies.
//   - Every change of a policy gives the next version to the policy and to the state, so that a caller can wait until a
//     version is in force. Setting a policy to the same values changes nothing.
//   - The leader checks a policy's fields before it proposes the policy. Applying does not check them, since limits may
//     differ from build to build.
//   - The policies carry signing secrets: neither policies nor entries with them may be logged or put into an error.
//   - A leader with a cluster key seals the secrets before it proposes a policy (see package seal). The reconciler
//     seals policies again that are in the clear or under an older key. Once a key is named in the state, applying
//     refuses signing secrets in the clear.
//
// # Why not otherwise
//
// The state is a protobuf message, of some kilobytes without policies. A change makes a new message that shares all
// unchanged parts with the old one, and swaps it; a reader keeps the state that it got. Not a database and not
// incremental: the state changes when nodes come and go and when operators decide, and a change of one policy of 4096
// copies their pointers (0.2 ms, where cloning all of them took 3 ms).
package control
