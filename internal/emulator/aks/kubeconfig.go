package aks

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
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// apiServerName returns the name of a cluster's API server (on Azure <prefix>-<8
// characters>.hcp.<region>.azmk8s.io).
func apiServerName(cluster arm.ID, properties kernel.Object) string {
	return kernel.Text(properties, "dnsPrefix") + "-" + DigitsOf(cluster) + "." + apiServerDomain
}

func isPrivate(properties kernel.Object) bool {
	return kernel.ObjectAt(properties, "apiServerAccessProfile")["enablePrivateCluster"] == true
}

// showAPIServer adds the names of the API server. A private cluster also has a public name, unless
// that is disabled.
func showAPIServer(cluster arm.ID, properties kernel.Object) {
	if isPrivate(properties) {
		if name := privateName(cluster, properties); name != "" {
			properties["privateFQDN"] = name
		}
		if kernel.ObjectAt(properties,
			"apiServerAccessProfile")["enablePrivateClusterPublicFQDN"] == false {
			return
		}
	}
	properties["fqdn"] = apiServerName(cluster, properties)
}

// OverTLS returns the HTTPS address of the same server, for a caller over plain HTTP: client-go
// sends no token over plain HTTP. It returns base unchanged if the emulator does not listen.
func (s *APIServers) OverTLS(base string) string {
	called, err := url.Parse(base)
	at, parsed := netip.ParseAddrPort(s.kernel.Server.HTTPS)
	if err != nil || parsed != nil || called.Scheme == "https" {
		return base
	}
	host := at.Addr().String()
	if at.Addr().IsUnspecified() { // it listens at all addresses that the caller can use
		host = called.Hostname()
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(int(at.Port())))
}

// credential answers with a kubeconfig. Its server is an address at which the emulator answers for
// the cluster, or a private cluster's name; the server's certificate is for the cluster's name.
func (s *APIServers) credential(c *kernel.Call, r *kernel.Resource,
	user string) (kernel.Reply, *kernel.Failure) {
	properties := r.Properties()
	if user == "clusterAdmin" && properties["disableLocalAccounts"] == true {
		return kernel.Reply{}, kernel.Bad("BadRequest", "Getting static credential is not "+
			"allowed because this cluster is set to disable local accounts.")
	}
	ca, _, err := s.kernel.Server.AuthorityLocked()
	if err != nil {
		return kernel.Reply{}, kernel.Fail(http.StatusInternalServerError, "KubeConfigError",
			"Making a certificate authority: %v", err)
	}
	server := ApiServerURL(s.OverTLS(c.Base), r.ID) + "\n    tls-server-name: " +
		apiServerName(r.ID, properties)
	if isPrivate(properties) {
		name := privateName(r.ID, properties)
		if name == "" { // its public name leads to its private address
			name = apiServerName(r.ID, properties)
		}
		server = "https://" + name + ":443"
	}
	name := r.ID.Name()
	login := "token: " + s.ClusterToken(r.ID, user)
	if user == "clusterUser" && withEntra(properties) {
		login = kubelogin(s.kernel.Opts.TenantOf(r.ID.Subscription()))
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
		user+"_"+r.ID.ResourceGroup()+"_"+name, login)
	s.kernel.Record(c, r.ID, "list"+strings.ToUpper(user[:1])+user[1:]+"Credential/action", nil)
	return kernel.OK(kernel.Object{"kubeconfigs": []kernel.Object{
		{"name": user, "value": base64.StdEncoding.EncodeToString([]byte(config))}}}), nil
}
