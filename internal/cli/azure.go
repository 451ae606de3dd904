package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"routekeeper.dev/routekeeper/internal/azure"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/finding"
)

var (
	cloudNames = []string{"public", "china", "usgov"}
	clouds     = map[string]cloud.Configuration{"public": cloud.AzurePublic,
		"china": cloud.AzureChina, "usgov": cloud.AzureGovernment}
)

// checkCloud checks --cloud and --emulator. Without these flags it uses the environment variables
// ROUTEKEEPER_CLOUD and ROUTEKEEPER_EMULATOR.
func checkCloud(a *app, cmd *cobra.Command) error {
	if dir := os.Getenv("ROUTEKEEPER_EMULATOR"); dir != "" && !cmd.Flags().Changed("emulator") &&
		!cmd.Flags().Changed("cloud") {
		a.emulatorDir = dir
	}
	from := "--cloud"
	if name := os.Getenv("ROUTEKEEPER_CLOUD"); name != "" && !cmd.Flags().Changed("cloud") {
		from, a.cloudName = "ROUTEKEEPER_CLOUD", name
	}
	if err := oneOf(from, "cloud", a.cloudName, cloudNames); err != nil {
		return err
	}
	if a.emulatorDir != "" && cmd.Flags().Changed("cloud") {
		return errors.New("--cloud and --emulator exclude each other")
	}
	repeatFlags(a, cmd, map[string]string{"emulator": a.emulatorDir, "cloud": a.cloudName})
	return startTimeout(a, cmd)
}

// repeatFlags makes printed commands repeat the flags that say where Azure and the config are. It
// leaves out values from environment variables, because the shell has those.
func repeatFlags(a *app, cmd *cobra.Command, globals map[string]string) {
	if a.repeat == nil {
		return
	}
	var global []string
	for name, value := range globals {
		if cmd.Flags().Changed(name) {
			global = []string{"--" + name, value}
		}
	}
	var configs []string
	if f := cmd.Flags().Lookup("file"); f != nil && f.Annotations[isConfig] != nil {
		configs, _ = cmd.Flags().GetStringArray("file")
	}
	a.repeat(global, configs)
}

// connect makes a client for the cloud or the emulator that the flags name. For a cloud it uses the
// login that other Azure tools use.
func (a *app) connect(ctx context.Context, log *slog.Logger) (*azure.Client, error) {
	return a.connectTelling(ctx, log, nil)
}

// connectTelling works like connect, with a function that receives each call.
func (a *app) connectTelling(ctx context.Context, log *slog.Logger,
	called func(azure.Call)) (*azure.Client, error) {
	if a.emulatorDir != "" {
		info, err := findLocal(ctx, a.emulatorDir)
		if err != nil {
			return nil, fmt.Errorf("--emulator: %w; start one with %s", err,
				finding.Command("%s emulator --dir %s", "routekeeper", a.emulatorDir))
		}
		return connectEmulator(info, azure.Options{Log: log, Called: called,
			Begins: a.waiting.begins, Progress: a.waiting.read})
	}
	config := clouds[a.cloudName]
	credential, err := azidentity.NewDefaultAzureCredential(
		&azidentity.DefaultAzureCredentialOptions{ClientOptions: azcore.ClientOptions{
			Cloud: config}})
	if err != nil {
		return nil, err
	}
	return azure.New(credential, azure.Options{Cloud: config, Version: version(), Log: log,
		Called: called, Begins: a.waiting.begins, Progress: a.waiting.read})
}

// startUp is how long to wait for an emulator that is just starting.
const startUp = 3 * time.Second

// findLocal reads the address of an emulator and checks that it answers. After a kill the file
// still exists, although the emulator is gone.
func findLocal(ctx context.Context, dir string) (emulator.Info, error) {
	var info emulator.Info
	var err error
	for deadline := time.Now().Add(startUp); ; {
		info, err = emulator.ReadInfo(dir)
		if !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
			break
		}
		select {
		case <-ctx.Done():
			return info, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	if stat, unseen := os.Stat(dir); err != nil && unseen == nil && !stat.IsDir() {
		return info, fmt.Errorf("%s is a file, expected the folder of an emulator", dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return info, fmt.Errorf("there is no emulator in %s", dir)
	}
	if err != nil {
		return info, err
	}
	if !info.Answers(ctx) {
		return info, fmt.Errorf("the emulator of %s, at %s, does not answer", dir, info.HTTPS)
	}
	return info, nil
}

// connectEmulator makes a client for an emulator. It logs in over HTTPS like any other client.
func connectEmulator(info emulator.Info, options azure.Options) (*azure.Client, error) {
	client, err := info.Client()
	if err != nil {
		return nil, err
	}
	config := cloud.Configuration{
		ActiveDirectoryAuthorityHost: info.HTTPS + "/",
		Services: map[cloud.ServiceName]cloud.ServiceConfiguration{
			cloud.ResourceManager: {Endpoint: info.HTTPS,
				Audience: "https://management.core.windows.net/"},
		},
	}
	credential, err := azidentity.NewClientSecretCredential(info.TenantID, info.ClientID,
		info.ClientSecret, &azidentity.ClientSecretCredentialOptions{
			ClientOptions:            azcore.ClientOptions{Cloud: config, Transport: client},
			DisableInstanceDiscovery: true, // public Entra ID does not know the emulator's tenant
		})
	if err != nil {
		return nil, err
	}
	options.Cloud, options.Transport, options.Version = config, client, version()
	return azure.New(credential, options)
}
