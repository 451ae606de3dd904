package emulator

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
)

// The clusters' API servers answer below a path of their own: no name leads to this machine
// everywhere. Their names, which the clusters' documents tell, are in the kubeconfig for the TLS
// certificate.
const (
	apiServerPath   = "_kubernetes" // and the cluster's subscription, resource group and name
	apiServerDomain = "hcp.localhost"
)

// continueLife is how long the next page of a list can be asked for: etcd forgets after five
// minutes.
const continueLife = 5 * time.Minute

// toAPIServer reports whether a call is for a cluster's API server.
func toAPIServer(c *call) bool { return len(c.path) > 3 && c.path[0] == apiServerPath }

// ofAPIServer is the cluster whose API server is called.
func ofAPIServer(c *call) arm.ID {
	return arm.ResourceID(c.path[1], c.path[2], arm.TypeCluster, c.path[3])
}

// apiServerURL is where a cluster's API server answers, for somebody who reaches the local Azure at
// base.
func apiServerURL(base string, cluster arm.ID) string {
	return base + "/" +
		strings.Join([]string{apiServerPath, cluster.Subscription(), cluster.ResourceGroup(),
			cluster.Name()}, "/")
}

// clusterUsers are the local accounts of the kubeconfigs. Each of them may do everything in the
// cluster.
var clusterUsers = []string{"clusterUser", "clusterAdmin", "clusterMonitoringUser"}

// clusterToken is the token of a cluster's user: the same one as long as the cluster is there, and
// also after a restart.
func (s *aks) clusterToken(cluster arm.ID, user string) string {
	mac := hmac.New(sha256.New, s.entra.identity.key.D.Bytes())
	mac.Write([]byte(cluster.Key() + " " + user))
	return hex.EncodeToString(mac.Sum(nil))
}

// user says who calls a cluster's API server.
func (s *aks) user(c *call) (Principal, *failure) {
	token, _ := strings.CutPrefix(c.header.Get("Authorization"), "Bearer ")
	for _, user := range clusterUsers {
		if hmac.Equal([]byte(token), []byte(s.clusterToken(ofAPIServer(c), user))) {
			return Principal{Name: user}, nil
		}
	}
	if who, known := s.entra.identity.userFor(token, aksServer); known {
		return who, nil
	}
	return Principal{}, fail(http.StatusUnauthorized, "Unauthorized", "Unauthorized")
}

// hosts reports whether a call is for a cluster's API server.
func (s *aks) hosts(c *call) bool { return toAPIServer(c) }

// refusal is a failure in the words of an API server.
func (s *aks) refusal(f *failure) reply {
	answer := f.reply()
	answer.body = encode(object{"kind": "Status", "apiVersion": "v1", "metadata": object{},
		"status": "Failure", "message": f.message, "reason": f.code, "code": f.status})
	return answer
}

// silent reports whether no API server is there: the cluster is stopped, or gone, and with it the
// name.
func (s *aks) silent(c *call) bool {
	defer s.kernel.lock()()
	s.kernel.happen()
	r := s.kernel.store.get(ofAPIServer(c))
	return r == nil || powerOf(r) != "Running"
}

// answer answers a call to a cluster's API server.
func (s *aks) answer(c *call) reply {
	c.secret = true // lists are long, and who wants to see them asks for them
	if c.unknown != nil {
		return s.refusal(c.unknown)
	}
	answer, f, asked := s.tokenRequest(c)
	if !asked {
		answer, f = s.kubernetesCall(c)
	}
	if f != nil {
		return s.refusal(f)
	}
	return answer
}

func (s *aks) kubernetesCall(c *call) (reply, *failure) {
	path := strings.Join(c.path[4:], "/")
	if c.method != http.MethodGet {
		return reply{}, fail(http.StatusMethodNotAllowed, "MethodNotAllowed",
			"the server does not allow this method on the requested resource")
	}
	defer s.kernel.lock()()
	s.kernel.happen()
	cl, r := s.clusters[ofAPIServer(c).Key()], s.kernel.store.get(ofAPIServer(c))
	if cl == nil || r == nil {
		return reply{}, s.kernel.missing(ofAPIServer(c))
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
	if f := s.admitKubernetes(c.who, r, verb, words[0], namespace); f != nil {
		return reply{}, f
	}
	if answer, known := discovery(path,
		"v"+fullVersion(text(objectAt(r.body, "properties"), "kubernetesVersion"))); known {
		return answer, nil
	}
	switch {
	case len(words) > 2:
	case words[0] == "nodes" && namespace == "":
		return s.listKubernetes(c, "Node", words, s.nodeObjects(cl, r))
	case words[0] == "pods" && (namespace != "" || len(words) == 1):
		pods := s.podObjects(cl, r)
		pods = slices.DeleteFunc(pods, func(o kubeObject) bool {
			return namespace != "" && o.namespace != namespace
		})
		return s.listKubernetes(c, "Pod", words, pods)
	}
	return reply{}, fail(http.StatusNotFound, "NotFound",
		"the server could not find the requested resource")
}

// discovery answers what clients ask before they ask for anything: the version, and what there is.
func discovery(path, version string) (reply, bool) {
	switch path {
	case "version":
		numbers := strings.Split(version[1:], ".")
		return ok(object{"major": numbers[0], "minor": numbers[1], "gitVersion": version,
			"platform": "linux/amd64"}), true
	case "healthz", "livez", "readyz":
		return reply{status: http.StatusOK, body: []byte("ok")}, true
	case "api":
		return ok(object{"kind": "APIVersions", "versions": []string{"v1"}}), true
	case "apis":
		return ok(object{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{}}), true
	case "api/v1":
		return ok(object{"kind": "APIResourceList", "groupVersion": "v1", "resources": []object{
			{"name": "nodes", "singularName": "node", "namespaced": false, "kind": "Node",
				"verbs": []string{"get", "list"}, "shortNames": []string{"no"}},
			{"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod",
				"verbs": []string{"get", "list"}, "shortNames": []string{"po"}},
		}}), true
	}
	return reply{}, false
}

// kubeObject is a node or a pod. Its document is made when it is on the page that is asked for.
type kubeObject struct {
	namespace, name string
	document        func() object
}

func (o kubeObject) key() string { return o.namespace + "/" + o.name }

// continueToken is where a list goes on, and since when it is asked for.
type continueToken struct {
	Version string    `json:"v"`
	Start   string    `json:"start"`
	Since   time.Time `json:"since"`
}

// listKubernetes answers with one object, with a list, or with a page of one.
func (s *aks) listKubernetes(c *call, kind string, words []string, all []kubeObject) (reply,
	*failure) {
	show := func(o kubeObject) object {
		doc := o.document()
		doc["apiVersion"], doc["kind"] = "v1", kind
		return doc
	}
	if len(words) == 2 {
		for _, o := range all {
			if o.name == words[1] {
				return ok(show(o)), nil
			}
		}
		return reply{}, fail(http.StatusNotFound, "NotFound", "%s %q not found", words[0], words[1])
	}
	slices.SortFunc(all, func(a, b kubeObject) int { return strings.Compare(a.key(), b.key()) })
	metadata := object{"resourceVersion": strconv.FormatInt(time.Now().Unix(), 10)}
	since := time.Now()
	if raw := c.param("continue"); raw != "" {
		token, f := readContinue(raw)
		if f != nil {
			return reply{}, f
		}
		since = token.Since
		at, _ := slices.BinarySearchFunc(all, token.Start, func(o kubeObject, key string) int {
			return strings.Compare(o.key(), key)
		})
		all = all[at:]
	}
	if limit, err := strconv.Atoi(c.param("limit")); err == nil && limit > 0 && limit < len(all) {
		token := encode(continueToken{"meta.k8s.io/v1", all[limit].key(), since})
		metadata["continue"], metadata["remainingItemCount"] = base64.RawURLEncoding.EncodeToString(
			token), len(all)-limit
		all = all[:limit]
	}
	items := []object{}
	for _, o := range all {
		doc := show(o)
		delete(doc, "apiVersion") // as the API's own lists do
		delete(doc, "kind")
		items = append(items, doc)
	}
	return ok(object{"kind": kind + "List", "apiVersion": "v1", "metadata": metadata,
		"items": items}), nil
}

// readContinue reads what an earlier page said.
func readContinue(raw string) (continueToken, *failure) {
	var token continueToken
	decoded, err := base64.RawURLEncoding.DecodeString(raw)
	if err != nil || json.Unmarshal(decoded, &token) != nil || token.Start == "" {
		return token, fail(http.StatusBadRequest, "BadRequest", "continue key is not valid: %s",
			raw)
	}
	if time.Since(token.Since) > continueLife {
		return token, fail(http.StatusGone, "Expired", "The provided continue parameter is too "+
			"old to display a consistent list result. You can start a new list without the "+
			"continue parameter, or use the continue token in this response to retrieve the "+
			"remainder of the results. Continuing with the provided token results in an "+
			"inconsistent list - objects that were created, modified, or deleted between the "+
			"time the first chunk was returned and now may show up in the list.")
	}
	return token, nil
}
