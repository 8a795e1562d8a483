// Package oidc judges the tokens (JWTs) of one OpenID Connect issuer, and gives their callers grants by their claims.
//
//	discovery   Run reads the issuer's document and keys, retries, and reads both again every 10 minutes
//	signature   by a key of the issuer: RS and PS (2048 bits or more) and ES 256 to 512, or EdDSA; never "none" or HS
//	claims      iss is the issuer, aud has the audience, exp, nbf and iat hold within 30 s, sub is there
//	roles       the rules of a file turn claims into grants
//
// One issuer is enough: an issuer can broker others.
//
//   - A node starts without its issuer. Until Run has reached it, tokens are refused as Unavailable, and API keys work.
//   - A token of an unknown key makes the node fetch the keys, at most every 10 s. All tokens wait for one fetch,
//     256 of them at once and 2 s each: others are refused as Unavailable. An attacker cannot make the node send more.
//   - A key that the issuer has withdrawn is forgotten at the next reading. The keys stay while the issuer is away, and
//     so do the callers.
//   - The audience is required: otherwise a token that the issuer made for another service would pass.
//   - The issuer is reached by HTTPS, or by HTTP on loopback, also after a redirect. Its answers are bounded.
//   - Times are numbers. A claim that is given twice, and a registered claim in another spelling, such as EXP, are
//     refused.
//   - JWTs whose type (typ) is neither JWT nor at+jwt, such as logout tokens, name no caller.
//
// # Roles
//
// The file is YAML or JSON:
//
//	name: email                            # claim with the caller's name for people; default: the subject
//	rules:
//	  - claim: [realm_access, roles]       # a list leads into objects; a text is one name, also with dots
//	    values: [belfry-admin]             # any of these; an asterisk at the end stands for any rest
//	    grants: [{role: admin, namespace: "*"}]
//	  - claim: groups
//	    values: ["team-*"]
//	    namespaces: belfry_namespaces      # this claim names the namespaces of grants without one
//	    grants:
//	      - {role: schedule, queues: ["orders*"]}
//	      - {role: read, namespace: shared}
//
// A claim holds a text, a number, a truth value, or a list of these. The claim scope is split at its spaces. The grants
// of all rules that apply add up. A claim cannot name all namespaces: names that are no namespace give nothing. A token
// without grants still names its caller, for the audit log and for refusals that name the missing role.
//
// # Why not otherwise
//
//   - oidc.RemoteKeySet of go-oidc: each token with an unknown key or a wrong signature makes it fetch, without a
//     limit, and it keeps withdrawn keys until an unknown one comes. So keySet has its place. go-oidc does the
//     discovery and the checks of the token's form, algorithm and issuer.
//   - The leeways of go-oidc: none for exp, and 5 minutes for nbf.
//   - Expressions, such as CEL, for the rules: a table is enough for roles and namespaces, and is read at a glance.
//   - Introspection of opaque tokens: each call would wait for the issuer.
package oidc
