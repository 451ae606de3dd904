package hello

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"routekeeper.dev/routekeeper/internal/finding/pastetest"
	"routekeeper.dev/routekeeper/internal/kube"
)

// TestMain runs the tests. Then it pastes the commands that they made with hostile names.
func TestMain(m *testing.M) { os.Exit(pastetest.Main(m.Run)) }

// TestPastedLeftover: the command that removes the demo, whatever the context is called.
func TestPastedLeftover(t *testing.T) {
	for _, rename := range pastetest.Names() {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		context := strconv.QuoteToASCII(rename("shop"))
		if err := os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\ncurrent-context: "+
			context+"\ncontexts:\n- name: "+context+"\n  context: {cluster: c, user: u}\n"+
			"clusters:\n- name: c\n  cluster: {server: https://localhost}\nusers:\n- name: u\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
		client, err := kube.Load(kube.Options{Kubeconfig: path})
		if err != nil {
			t.Fatal(err)
		}
		(&Demo{Client: client, Namespace: "hello"}).Leftover()
	}
}
