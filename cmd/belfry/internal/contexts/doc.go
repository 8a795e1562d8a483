// Package contexts keeps the clusters that a user calls, under names: their addresses, namespace and credentials.
//
//	current: prod
//	contexts:
//	  prod:
//	    addr: [https://n1:8400, https://n2:8400]
//	    namespace: orders
//	    key: bfy_…
//
// The file is contexts.yaml in the folder belfry of os.UserConfigDir, or the file of BELFRY_CONTEXTS. It may hold keys,
// so that only its owner may read it: Load refuses another one. Save replaces it in one step.
package contexts
