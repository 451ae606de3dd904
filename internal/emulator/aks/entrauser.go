package aks

import (
	"net/http"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// AksServer and aksClient are AKS's own applications in every tenant: AksServer is the audience of
// the tokens that the clusters' API servers accept, and kubelogin requests them as aksClient.
const (
	AksServer = "6dae42f8-4368-4678-94ff-3960e28e3630"
	aksClient = "80faf920-1908-4b52-b5ef-a8e7bedfc67a"
)

// withEntra reports whether a cluster's users log in with Entra ID.
func withEntra(properties kernel.Object) bool {
	return kernel.ObjectAt(properties, "aadProfile")["managed"] == true
}

// kubelogin returns the part of the kubeconfig that logs in to such a cluster.
func kubelogin(tenant string) string {
	return `exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      args:
      - get-token
      - --environment
      - AzurePublicCloud
      - --server-id
      - ` + AksServer + `
      - --client-id
      - ` + aksClient + `
      - --tenant-id
      - ` + tenant + `
      - --login
      - devicecode
      command: kubelogin
      env: null
      installHint: az aks install-cli
      provideClusterInfo: false`
}

// admitKubernetes refuses the calls of callers without rights in a cluster: local accounts if they
// are disabled, and Entra ID users without a role. Azure roles count if the cluster uses Azure
// RBAC; Kubernetes' own bindings are not emulated.
func (s *APIServers) admitKubernetes(who kernel.Principal, cluster *kernel.Resource, verb, plural,
	namespace string) *kernel.Failure {
	properties := cluster.Properties()
	local := who.ObjectID == ""
	elsewhere := who.Tenant != "" &&
		!strings.EqualFold(who.Tenant, s.kernel.Opts.TenantOf(cluster.ID.Subscription()))
	if local && properties["disableLocalAccounts"] == true ||
		!local && (elsewhere || !withEntra(properties)) {
		return kernel.Fail(http.StatusUnauthorized, "Unauthorized", "Unauthorized")
	}
	if local || s.authorization.IsDefault(who) || plural == "" {
		return nil
	}
	why := ""
	if kernel.ObjectAt(properties, "aadProfile")["enableAzureRBAC"] == true {
		if s.authorization.Granted(who, arm.TypeCluster+"/"+plural+"/read", cluster.ID, true) {
			return nil
		}
		why = ": User does not have access to the resource in Azure. Update role assignment to " +
			"allow access."
	}
	where := "at the cluster scope"
	if namespace != "" {
		where = `in the namespace "` + namespace + `"`
	}
	return kernel.Fail(http.StatusForbidden, "Forbidden",
		`%s is forbidden: User "%s" cannot %s resource "%[1]s" in API group "" %[4]s%[5]s`, plural,
		who.ObjectID, verb, where, why)
}
