package chart

// header begins the plain manifests.
const header = `# A cluster of three nodes, without Helm. "make manifests" makes this file from the chart in
# deploy/helm/belfry, with its default values: change the chart instead.
#
#   kubectl create namespace belfry
#   deploy/kubernetes/secrets.sh belfry-certs root.key | kubectl apply -n belfry -f -
#   kubectl apply -f deploy/kubernetes/belfry.yaml
#
# docs/operations/kubernetes.md has the steps before and after.

`

// Plain returns the plain manifests of the chart in a folder.
func Plain(dir string) ([]byte, error) {
	r, err := Render(dir, Release{Name: "belfry", Namespace: "belfry"}, nil)
	if err != nil {
		return nil, err
	}
	return append([]byte(header), r.Manifests...), nil
}
