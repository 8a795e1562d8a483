// Package access decides who may do what: the vocabulary of callers, grants and needs, the text of API keys, and the
// Authority that turns the credentials of a call into its Caller.
//
//	Role       what a caller may do: read, schedule, consume, operate, admin
//	Grant      a role within one namespace or all, and perhaps only for some queues and ids
//	Caller     an identity with its grants, as one call carries it
//	Need       what one call demands of its caller
//	KeyRecord  an API key as the cluster stores it
//	Source     the committed keys
//	Refusal    the reason why credentials make no caller
//
// # Roles
//
// Each role includes read. Admin includes every role, and alone manages keys, namespaces and the audit log. A call
// about a queue or an id needs a grant that reaches both; a caller whose grants name queues or ids cannot list beyond
// them.
//
// # Keys
//
//		bfy_<id>_<secret>_<checksum>
//		id        10 characters; a rotation keeps it
//		secret    32 random bytes in 52 characters
//		checksum  CRC-32 (IEEE) of all before its underscore, in 7 characters
//
//	  - All parts are base32 in lower case, so a double click selects a whole key, and a key survives a change of fonts.
//	  - The checksum tells a mistyped key from a wrong one without a lookup. Secret scanners find keys by their form.
//	  - The cluster stores the SHA-256 of the text. The text itself is shown once.
//
// Why no slow hash, as for passwords? A secret has 256 random bits. There is no list of likely secrets to try, and a
// slow hash would be paid by each call.
package access
