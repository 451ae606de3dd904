package generate

import "fmt"

// manifest returns what runs the keeper in a cluster: namespace, service account, config and
// deployment. The keeper is on the node's network, with the node's DNS: it repairs the routes
// between pods, so it must not need them. Its listener is on loopback, where callers need no
// secret.
func manifest(config lines, clientID, image string) lines {
	out := lines{
		"apiVersion: v1",
		"kind: Namespace",
		"metadata:",
		"  name: " + keeperNamespace,
		"---",
		"apiVersion: v1",
		"kind: ServiceAccount",
		"metadata:",
		"  name: " + keeperAccount,
		"  namespace: " + keeperNamespace,
		"  annotations:",
		"    azure.workload.identity/client-id: " + clientID,
		"---",
		"apiVersion: v1",
		"kind: ConfigMap",
		"metadata:",
		"  name: routekeeper",
		"  namespace: " + keeperNamespace,
		"data:",
		"  routes.yaml: |",
	}
	for _, line := range config {
		if line != "" {
			line = "    " + line
			out = append(out, line)
		}
	}
	out = append(out,
		"---",
		"apiVersion: apps/v1",
		"kind: Deployment",
		"metadata:",
		"  name: routekeeper",
		"  namespace: "+keeperNamespace,
		"spec:",
		"  replicas: 1",
		"  strategy:",
		"    type: Recreate",
		"  selector:",
		"    matchLabels:",
		"      app: routekeeper",
		"  template:",
		"    metadata:",
		"      labels:",
		"        app: routekeeper",
		"        azure.workload.identity/use: \"true\"",
		"    spec:",
		"      serviceAccountName: "+keeperAccount,
		"      # On the node's network: the keeper repairs the routes between pods, and must not "+
			"need them.",
		"      hostNetwork: true",
		"      dnsPolicy: Default",
		"      containers:",
		"        - name: routekeeper",
		"          image: "+image,
		"          args:",
	)
	listen := fmt.Sprintf("127.0.0.1:%d", clusterPort)
	for _, a := range []string{"run", "-f", "/etc/routekeeper/routes.yaml", "--listen", listen} {
		out = append(out, fmt.Sprintf("            - %q", a))
	}
	for _, probe := range []struct{ name, path string }{{"livenessProbe", "/livez"},
		{"readinessProbe", "/readyz"}} {
		out = append(out,
			"          "+probe.name+":",
			"            httpGet:",
			"              host: 127.0.0.1",
			"              path: "+probe.path,
			fmt.Sprintf("              port: %d", clusterPort),
			"            periodSeconds: 10",
		)
	}
	return append(out,
		"          resources:",
		"            requests:",
		"              cpu: 50m",
		"              memory: 64Mi",
		"            limits:",
		"              memory: 512Mi",
		"          securityContext:",
		"            allowPrivilegeEscalation: false",
		"            readOnlyRootFilesystem: true",
		"            runAsNonRoot: true",
		"            runAsUser: 65532",
		"            capabilities:",
		"              drop: [ALL]",
		"          volumeMounts:",
		"            - name: config",
		"              mountPath: /etc/routekeeper",
		"      volumes:",
		"        - name: config",
		"          configMap:",
		"            name: routekeeper",
		"",
	)
}
