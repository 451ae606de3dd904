package generate

import (
	_ "embed"
	"strings"
	"text/template"
)

//go:embed manifest.yaml.tmpl
var manifestText string

// manifest returns what runs the keeper in a cluster: namespace, service account, config and
// deployment. The keeper is on the node's network, with the node's DNS: it repairs the routes
// between pods, so it must not need them. Its listener is on loopback, where callers need no
// secret.
func manifest(config lines, clientID, image string) lines {
	var text strings.Builder
	if err := template.Must(template.New("").Parse(manifestText)).Execute(&text, map[string]any{
		"Namespace": keeperNamespace, "Account": keeperAccount, "Port": clusterPort,
		"Config": config, "ClientID": clientID, "Image": image,
	}); err != nil {
		panic(err) // the template is embedded
	}
	return strings.Split(strings.ReplaceAll(text.String(), "\r\n", "\n"), "\n")
}
