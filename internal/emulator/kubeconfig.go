package emulator

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// apiServerName is the name of a cluster's API server (on Azure <prefix>-<8
// characters>.hcp.<region>.azmk8s.io).
func apiServerName(cluster arm.ID, properties object) string {
	return text(properties, "dnsPrefix") + "-" + digitsOf(cluster) + "." + apiServerDomain
}

func isPrivate(properties object) bool {
	return objectAt(properties, "apiServerAccessProfile")["enablePrivateCluster"] == true
}

// showAPIServer adds the names of the API server. A private cluster has a public name as well,
// unless it does without.
func showAPIServer(cluster arm.ID, properties object) {
	if isPrivate(properties) {
		if name := privateName(cluster, properties); name != "" {
			properties["privateFQDN"] = name
		}
		if objectAt(properties,
			"apiServerAccessProfile")["enablePrivateClusterPublicFQDN"] == false {
			return
		}
	}
	properties["fqdn"] = apiServerName(cluster, properties)
}

// overTLS is the same server's address with HTTPS, for somebody who has called the port without:
// over plain HTTP client-go sends no token. It is left as it is where nothing listens.
func (s *aks) overTLS(base string) string {
	called, err := url.Parse(base)
	at, parsed := netip.ParseAddrPort(s.kernel.server.HTTPS)
	if err != nil || parsed != nil || called.Scheme == "https" {
		return base
	}
	host := at.Addr().String()
	if at.Addr().IsUnspecified() { // it listens under every name that the caller can have
		host = called.Hostname()
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(int(at.Port())))
}

// credential answers with a kubeconfig. Its server is an address at which the local Azure answers
// for the cluster, or a private cluster's name; the certificate that the server shows is for the
// cluster's name.
func (s *aks) credential(user string) func(*call, *resource) (reply, *failure) {
	return func(c *call, r *resource) (reply, *failure) {
		properties := objectAt(r.body, "properties")
		if user == "clusterAdmin" && properties["disableLocalAccounts"] == true {
			return reply{}, fail(http.StatusBadRequest, "BadRequest", "Getting static credential "+
				"is not allowed because this cluster is set to disable local accounts.")
		}
		ca, _, err := s.kernel.authorityLocked()
		if err != nil {
			return reply{}, fail(http.StatusInternalServerError, "KubeConfigError",
				"Making a certificate authority: %v", err)
		}
		server := apiServerURL(s.overTLS(c.base), r.id) + "\n    tls-server-name: " +
			apiServerName(r.id, properties)
		if isPrivate(properties) {
			name := privateName(r.id, properties)
			if name == "" { // its public name leads to its private address
				name = apiServerName(r.id, properties)
			}
			server = "https://" + name + ":443"
		}
		name := r.id.Name()
		login := "token: " + s.clusterToken(r.id, user)
		if user == "clusterUser" && withEntra(properties) {
			login = kubelogin(s.kernel.tenantOf(r.id.Subscription()))
		}
		config := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: %[1]s
  cluster:
    certificate-authority-data: %[2]s
    server: %[3]s
contexts:
- name: %[1]s
  context:
    cluster: %[1]s
    user: %[4]s
current-context: %[1]s
preferences: {}
users:
- name: %[4]s
  user:
    %[5]s
`, name, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
			Bytes: ca.Raw})), server,
			user+"_"+r.id.ResourceGroup()+"_"+name, login)
		s.kernel.record(c, r.id, "list"+strings.ToUpper(user[:1])+user[1:]+"Credential/action", nil)
		return ok(object{"kubeconfigs": []object{
			{"name": user, "value": base64.StdEncoding.EncodeToString([]byte(config))}}}), nil
	}
}
