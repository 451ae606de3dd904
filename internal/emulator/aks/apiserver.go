package aks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// The clusters' API servers answer at paths of the emulator, because DNS names would not resolve.
// The names that the clusters' documents show are in the kubeconfig, for the TLS certificate.
const (
	// followed by the cluster's subscription, resource group and name
	apiServerPath   = "_kubernetes"
	apiServerDomain = "hcp.localhost"
)

// continueLife is how long a continue token is valid: etcd forgets a list after five minutes.
const continueLife = 5 * time.Minute

// toAPIServer reports whether a call is for a cluster's API server.
func toAPIServer(c *kernel.Call) bool { return len(c.Path) > 3 && c.Path[0] == apiServerPath }

// calledClusterID returns the cluster whose API server is called.
func calledClusterID(c *kernel.Call) arm.ID {
	return arm.ResourceID(c.Path[1], c.Path[2], arm.TypeCluster, c.Path[3])
}

// ApiServerURL returns the URL of a cluster's API server for a caller that reaches the emulator at
// base.
func ApiServerURL(base string, cluster arm.ID) string {
	return base + "/" +
		strings.Join([]string{apiServerPath, cluster.Subscription(), cluster.ResourceGroup(),
			cluster.Name()}, "/")
}

// clusterUsers are the local accounts of the kubeconfigs. Each has all rights in the cluster.
var clusterUsers = []string{"clusterUser", "clusterAdmin", "clusterMonitoringUser"}

// APIServers are the clusters' API servers, with their issuers of tokens.
type APIServers struct {
	*AKS
	// real answers for them; nil: this package does.
	real Kubernetes
}

// ClusterToken returns the token of a cluster's user. It stays the same while the cluster exists,
// also after a restart.
func (s *APIServers) ClusterToken(cluster arm.ID, user string) string {
	mac := hmac.New(sha256.New, s.entra.Identity.Key().D.Bytes())
	mac.Write([]byte(cluster.Key() + " " + user))
	return hex.EncodeToString(mac.Sum(nil))
}

// User returns the caller of a cluster's API server.
func (s *APIServers) User(c *kernel.Call) (kernel.Principal, *kernel.Failure) {
	token, _ := strings.CutPrefix(c.Header.Get("Authorization"), "Bearer ")
	for _, user := range clusterUsers {
		if hmac.Equal([]byte(token), []byte(s.ClusterToken(calledClusterID(c), user))) {
			return kernel.Principal{Name: user}, nil
		}
	}
	if who, known := s.entra.Identity.UserFor(token, AksServer); known {
		return who, nil
	}
	return kernel.Principal{}, kernel.Fail(http.StatusUnauthorized, "Unauthorized", "Unauthorized")
}

// Hosts reports whether a call is for a cluster's API server.
func (s *APIServers) Hosts(c *kernel.Call) bool { return toAPIServer(c) }

// Refusal returns a failure as an API server answers it.
func (s *APIServers) Refusal(f *kernel.Failure) kernel.Reply {
	answer := f.Reply()
	answer.Body = kernel.Encode(kernel.Object{"kind": "Status", "apiVersion": "v1",
		"metadata": kernel.Object{},
		"status":   "Failure", "message": f.Message, "reason": f.Code, "code": f.Status})
	return answer
}

// Silent reports whether no API server answers: the cluster is stopped or deleted.
func (s *APIServers) Silent(c *kernel.Call) bool {
	defer s.kernel.Lock()()
	s.kernel.Happen()
	r := s.kernel.Store.Get(calledClusterID(c))
	return r == nil || powerOf(r) != "Running"
}

// Answer answers a call to a cluster's API server.
func (s *APIServers) Answer(c *kernel.Call) kernel.Reply {
	c.Secret = true // lists are long, so they are not logged
	if c.Unknown != nil {
		return s.Refusal(c.Unknown)
	}
	answer, f, asked := s.tokenRequest(c)
	if !asked {
		answer, f = s.kubernetesCall(c)
	}
	if f != nil {
		return s.Refusal(f)
	}
	return answer
}

func (s *APIServers) kubernetesCall(c *kernel.Call) (kernel.Reply, *kernel.Failure) {
	path := strings.Join(c.Path[4:], "/")
	if c.Method != http.MethodGet {
		return kernel.Reply{}, kernel.Fail(http.StatusMethodNotAllowed, "MethodNotAllowed",
			"the server does not allow this method on the requested resource")
	}
	defer s.kernel.Lock()()
	s.kernel.Happen()
	cl, r, f := s.called(c)
	if f != nil {
		return kernel.Reply{}, f
	}
	namespace, words := "", []string{""}
	if rest, found := strings.CutPrefix(path, "api/v1/"); found {
		words = strings.Split(rest, "/")
		if len(words) > 2 && words[0] == "namespaces" {
			namespace, words = words[1], words[2:]
		}
	}
	verb := "list"
	if len(words) == 2 {
		verb = "get"
	}
	if f := s.admitKubernetes(c.Who, r, verb, words[0], namespace); f != nil {
		return kernel.Reply{}, f
	}
	if answer, known := discovery(path,
		"v"+fullVersion(kernel.Text(r.Properties(), "kubernetesVersion"))); known {
		return answer, nil
	}
	switch {
	case len(words) > 2:
	case words[0] == "nodes" && namespace == "":
		return s.listKubernetes(c, "Node", words, s.nodeObjects(cl, r), cl.nodesVersion())
	case words[0] == "pods" && (namespace != "" || len(words) == 1):
		pods := s.podObjects(cl, r)
		pods = slices.DeleteFunc(pods, func(o kubeObject) bool {
			return namespace != "" && o.namespace != namespace
		})
		return s.listKubernetes(c, "Pod", words, pods, strconv.FormatInt(time.Now().Unix(), 10))
	}
	return kernel.Reply{}, kernel.Fail(http.StatusNotFound, "NotFound",
		"the server could not find the requested resource")
}

// called returns the cluster whose API server is called, and its document.
func (s *APIServers) called(c *kernel.Call) (*cluster, *kernel.Resource, *kernel.Failure) {
	id := calledClusterID(c)
	cl, r := s.Clusters[id.Key()], s.kernel.Store.Get(id)
	if cl == nil || r == nil {
		return nil, nil, s.kernel.Missing(id)
	}
	return cl, r, nil
}

// discovery answers the calls with which clients begin: the version, and the API groups and
// resources.
func discovery(path, version string) (kernel.Reply, bool) {
	switch path {
	case "version":
		numbers := strings.Split(version[1:], ".")
		return kernel.OK(kernel.Object{"major": numbers[0], "minor": numbers[1],
			"gitVersion": version,
			"platform":   "linux/amd64"}), true
	case "healthz", "livez", "readyz":
		return kernel.Reply{Status: http.StatusOK, Body: []byte("ok")}, true
	case "api":
		return kernel.OK(kernel.Object{"kind": "APIVersions", "versions": []string{"v1"}}), true
	case "apis":
		return kernel.OK(kernel.Object{"kind": "APIGroupList", "apiVersion": "v1",
			"groups": []any{}}), true
	case "api/v1":
		return kernel.OK(kernel.Object{"kind": "APIResourceList", "groupVersion": "v1",
			"resources": []kernel.Object{
				{"name": "nodes", "singularName": "node", "namespaced": false, "kind": "Node",
					"verbs": []string{"get", "list", "watch"}, "shortNames": []string{"no"}},
				{"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod",
					"verbs": []string{"get", "list"}, "shortNames": []string{"po"}},
			}}), true
	}
	return kernel.Reply{}, false
}

// kubeObject is a node or a pod. Its document is made only if it is on the requested page.
type kubeObject struct {
	namespace, name string
	document        func() kernel.Object
}

func (o kubeObject) key() string { return o.namespace + "/" + o.name }

// continueToken is the position of the next page, and the time of the first one.
type continueToken struct {
	Version string    `json:"v"`
	Start   string    `json:"start"`
	Since   time.Time `json:"since"`
}

// listKubernetes answers with one object, a list, or a page of a list.
func (s *APIServers) listKubernetes(c *kernel.Call, kind string, words []string,
	all []kubeObject, version string) (kernel.Reply, *kernel.Failure) {
	show := func(o kubeObject) kernel.Object {
		doc := o.document()
		doc["apiVersion"], doc["kind"] = "v1", kind
		return doc
	}
	if len(words) == 2 {
		for _, o := range all {
			if o.name == words[1] {
				return kernel.OK(show(o)), nil
			}
		}
		return kernel.Reply{}, kernel.Fail(http.StatusNotFound, "NotFound", "%s %q not found",
			words[0], words[1])
	}
	slices.SortFunc(all, func(a, b kubeObject) int { return strings.Compare(a.key(), b.key()) })
	metadata := kernel.Object{"resourceVersion": version}
	since := time.Now()
	if raw := c.Param("continue"); raw != "" {
		token, f := readContinue(raw)
		if f != nil {
			return kernel.Reply{}, f
		}
		since = token.Since
		at, _ := slices.BinarySearchFunc(all, token.Start, func(o kubeObject, key string) int {
			return strings.Compare(o.key(), key)
		})
		all = all[at:]
	}
	if limit, err := strconv.Atoi(c.Param("limit")); err == nil && limit > 0 && limit < len(all) {
		token := kernel.Encode(continueToken{"meta.k8s.io/v1", all[limit].key(), since})
		metadata["continue"], metadata["remainingItemCount"] = base64.RawURLEncoding.EncodeToString(
			token), len(all)-limit
		all = all[:limit]
	}
	items := []kernel.Object{}
	for _, o := range all {
		doc := show(o)
		delete(doc, "apiVersion") // as the API's own lists do
		delete(doc, "kind")
		items = append(items, doc)
	}
	return kernel.OK(kernel.Object{"kind": kind + "List", "apiVersion": "v1", "metadata": metadata,
		"items": items}), nil
}

// readContinue decodes the token of an earlier page.
func readContinue(raw string) (continueToken, *kernel.Failure) {
	var token continueToken
	decoded, err := base64.RawURLEncoding.DecodeString(raw)
	if err != nil || json.Unmarshal(decoded, &token) != nil || token.Start == "" {
		return token, kernel.Bad("BadRequest", "continue key is not valid: %s", raw)
	}
	if time.Since(token.Since) > continueLife {
		return token, kernel.Fail(http.StatusGone, "Expired",
			"The provided continue parameter is too "+
				"old to display a consistent list result. You can start a new list without the "+
				"continue parameter, or use the continue token in this response to retrieve the "+
				"remainder of the results. Continuing with the provided token results in an "+
				"inconsistent list - objects that were created, modified, or deleted between the "+
				"time the first chunk was returned and now may show up in the list.")
	}
	return token, nil
}
