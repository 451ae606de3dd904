package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"routekeeper.dev/routekeeper/internal/hello"
)

// newHello makes the program that runs in the pods of cluster hello. It is hidden from people.
func newHello(a *app) *cobra.Command {
	listen := fmt.Sprintf(":%d", hello.Port)
	cmd := &cobra.Command{
		Use:   "hello",
		Short: "Serve the page of a pod of the demo (cluster hello starts it)",
		Long: `Serves the page of a pod of the demo that cluster hello deploys: which pod it is
and which pods it reaches. The pod's name, namespace, node and address come from
the environment: HELLO_POD, HELLO_NAMESPACE, HELLO_NODE, HELLO_ADDRESS.
HELLO_PEERS is the name of the service that lists the other pods.`,
		Example: "  routekeeper hello --listen :8080",
		Hidden:  true,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runHello(cmd.Context(), a, listen)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", listen, "`address` of the page")
	return cmd
}

func runHello(ctx context.Context, a *app, listen string) error {
	s := &hello.Server{
		Self: hello.Self{
			Pod: os.Getenv("HELLO_POD"), Namespace: os.Getenv("HELLO_NAMESPACE"),
			Node: os.Getenv("HELLO_NODE"), Address: os.Getenv("HELLO_ADDRESS"),
		},
		Dial: new(net.Dialer).DialContext, Peers: hello.Lookup(os.Getenv("HELLO_PEERS")),
		Log: a.out,
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	fmt.Fprintf(a.out, "listening on %s\n", l.Addr())
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
