package kubernetes

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// controlPlane is one cluster's etcd, kube-apiserver, kube-controller-manager and kube-scheduler.
type controlPlane struct {
	folder string
	ca     *authority
	server *url.URL
	// admin makes calls as an administrator. asUser passes on calls of users whom the emulator has
	// authenticated, as an aggregating proxy does; asSent passes on other calls unchanged.
	admin          *http.Client
	asUser, asSent *httputil.ReverseProxy
	all            []*process
}

// startControlPlane runs a control plane in a folder until the context ends. Its API server reaches
// nodes and pods through a socket (tunnel.go), as AKS' does through konnectivity.
func startControlPlane(ctx context.Context, b Binaries, folder, socket,
	serviceCIDR string) (*controlPlane, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	ca, err := newAuthority(folder)
	if err != nil {
		return nil, err
	}
	cp := &controlPlane{folder: folder, ca: ca}
	etcd, err := cp.startEtcd(ctx, b.Etcd)
	if err != nil {
		return nil, err
	}
	if err := cp.startAPIServer(ctx, b.APIServer, etcd, socket, serviceCIDR); err != nil {
		return nil, err
	}
	return cp, cp.startControllers(ctx, b)
}

func (cp *controlPlane) start(ctx context.Context, name, path string, args ...string) (*process,
	error) {
	p, err := start(ctx, cp.folder, name, path, args...)
	if err == nil {
		cp.all = append(cp.all, p)
	}
	return p, err
}

// wait waits until all programs have ended, which they do after their context.
func (cp *controlPlane) wait() {
	for _, p := range cp.all {
		<-p.done
	}
}

func (cp *controlPlane) startEtcd(ctx context.Context, path string) (url string, err error) {
	client, err := freePort()
	if err != nil {
		return "", err
	}
	peer, err := freePort()
	if err != nil {
		return "", err
	}
	url = fmt.Sprintf("http://127.0.0.1:%d", client)
	peers := fmt.Sprintf("http://127.0.0.1:%d", peer)
	p, err := cp.start(ctx, "etcd", path, "--data-dir="+filepath.Join(cp.folder, "etcd"),
		"--listen-client-urls="+url, "--advertise-client-urls="+url, "--listen-peer-urls="+
			peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers,
		"--unsafe-no-fsync") // the data of an emulator need not survive a loss of power
	if err != nil {
		return "", err
	}
	return url, p.ready(ctx, http.DefaultClient, url+"/readyz")
}

func (cp *controlPlane) startAPIServer(ctx context.Context, path, etcd, socket,
	serviceCIDR string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	certificates := map[string]tls.Certificate{}
	for name, who := range map[string][]string{
		"apiserver": {"kube-apiserver"}, "admin": {"routekeeper-emulator", "system:masters"},
		"front-proxy": {"front-proxy"}, "kubelet-client": {"kube-apiserver-kubelet-client"},
	} {
		if certificates[name], err = cp.ca.issue(name, who[0], who[1:]...); err != nil {
			return err
		}
	}
	egress := cp.ca.file("egress.yaml")
	if err := os.WriteFile(egress, fmt.Appendf(nil, `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: %s
`, socket), 0o600); err != nil {
		return err
	}
	p, err := cp.start(ctx, "kube-apiserver", path,
		"--etcd-servers="+etcd, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file="+cp.ca.file("apiserver.crt"), "--tls-private-key-file="+
			cp.ca.file("apiserver.key"),
		"--client-ca-file="+cp.ca.file("ca.crt"), "--authorization-mode=RBAC",
		"--requestheader-client-ca-file="+
			cp.ca.file("ca.crt"), "--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+cp.ca.file("service-accounts.key"),
		"--service-account-signing-key-file="+cp.ca.file("service-accounts.key"),
		"--kubelet-client-certificate="+cp.ca.file("kubelet-client.crt"),
		"--kubelet-client-key="+cp.ca.file("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--egress-selector-config-file="+egress,
		"--service-cluster-ip-range="+serviceCIDR,
		// it would publish loopback, which Endpoints may not contain
		"--endpoint-reconciler-type=none", "--shutdown-delay-duration=0s", "--v=1")
	if err != nil {
		return err
	}
	cp.server = &url.URL{Scheme: "https", Host: fmt.Sprintf("127.0.0.1:%d", port)}
	cp.admin = &http.Client{Transport: cp.transport(certificates["admin"])}
	cp.asUser = cp.proxy(cp.transport(certificates["front-proxy"]))
	cp.asSent = cp.proxy(cp.transport())
	return p.ready(ctx, cp.admin, cp.server.String()+"/readyz")
}

// transport speaks HTTP/1.1 with a certificate: the API server's port-forward is an upgrade.
func (cp *controlPlane) transport(with ...tls.Certificate) *http.Transport {
	return &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: cp.ca.pool, Certificates: with},
		MaxIdleConnsPerHost: 20, IdleConnTimeout: time.Minute,
	}
}

// proxy passes calls on to the API server, watches and upgrades included.
func (cp *controlPlane) proxy(by *http.Transport) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(cp.server)
		}, FlushInterval: -1, Transport: by,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // as if nothing listened
		},
		ErrorLog: log.New(io.Discard, "", 0), // of clients that close the connection
	}
}

func (cp *controlPlane) startControllers(ctx context.Context, b Binaries) error {
	for name, program := range map[string]struct {
		path string
		args []string
	}{
		"kube-controller-manager": {b.ControllerManager, []string{
			"--service-account-private-key-file=" + cp.ca.file("service-accounts.key"),
			"--root-ca-file=" + cp.ca.file("ca.crt"), "--allocate-node-cidrs=false",
			"--use-service-account-credentials"}},
		"kube-scheduler": {b.Scheduler, nil},
	} {
		if _, err := cp.ca.issue(name, "system:"+name); err != nil {
			return err
		}
		config := cp.ca.file(name + ".yaml")
		if err := os.WriteFile(config, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: %q, certificate-authority: %q}
users:
- name: u
  user: {client-certificate: %q, client-key: %q}
contexts:
- name: c
  context: {cluster: c, user: u}
current-context: c
`, cp.server, cp.ca.file("ca.crt"), cp.ca.file(name+".crt"), cp.ca.file(name+".key")),
			0o600); err != nil {
			return err
		}
		args := append([]string{"--kubeconfig=" + config, "--authentication-kubeconfig=" + config,
			"--authorization-kubeconfig=" +
				config, "--leader-elect=false", "--secure-port=0", "--v=1"}, program.args...)
		if _, err := cp.start(ctx, name, program.path, args...); err != nil {
			return err
		}
	}
	return nil
}
