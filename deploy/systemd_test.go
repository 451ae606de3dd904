//go:build unix

package deploy

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"routekeeper.dev/routekeeper/internal/cli"
	"routekeeper.dev/routekeeper/internal/emulator"
	"routekeeper.dev/routekeeper/internal/emulator/emulatortest"
)

// program is set in the environment to make the tests' own binary run as the program.
const program = "ROUTEKEEPER_IS_THE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(program) != "" {
		os.Exit(cli.Main())
	}
	os.Exit(m.Run())
}

// unit reads the settings of the unit, the last one of each name.
func unit(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("systemd/routekeeper.service")
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\w+)=(.*)$`).FindAllStringSubmatch(string(raw),
		-1) {
		settings[m[1]] = m[2]
	}
	return settings
}

// command is a command of the unit, with the folders of a machine below root, and with changed
// environment variables.
func command(t *testing.T, line, root string, variables map[string]string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, word := range strings.Fields(line) {
		// a separate word is split at spaces: systemd.service(5)
		if name, variable := strings.CutPrefix(word, "$"); variable {
			args = append(args, strings.Fields(variables[name])...)
			continue
		}
		args = append(args, strings.NewReplacer("/usr/local/bin/routekeeper", self, "%S", root+
			"/var/lib", "/etc/routekeeper", root+"/etc/routekeeper").Replace(word))
	}
	c := exec.Command(args[0], args[1:]...)
	c.Env = append(os.Environ(), program+"=1")
	return c
}

// set reads a variable from the example environment file.
func set(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile("systemd/environment")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindSubmatch(raw)
	if m == nil {
		t.Fatalf("the environment does not set %s", name)
	}
	return string(m[1])
}

// toldSystemd waits for a message to systemd, and returns the messages before it.
func toldSystemd(t *testing.T, from *net.UnixConn, want string) (before []string) {
	t.Helper()
	if err := from.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for text := make([]byte, 100); ; {
		n, err := from.Read(text)
		if err != nil {
			t.Fatalf("it did not say %s: %v", want, err)
		}
		if string(text[:n]) == want {
			return before
		}
		before = append(before, string(text[:n]))
	}
}

// toldNext is toldSystemd, but only WATCHDOG=1 may come before.
func toldNext(t *testing.T, from *net.UnixConn, want string) {
	t.Helper()
	for _, state := range toldSystemd(t, from, want) {
		if state != "WATCHDOG=1" {
			t.Errorf("it said %q before %s", state, want)
		}
	}
}

// TestUnit does what systemd does with the unit, except for the sandbox: the program starts as the
// unit says, reports when it is up, reloads its config, and stops. It writes only in its own
// folder.
func TestUnit(t *testing.T) {
	u := unit(t)
	root, err := os.MkdirTemp("", "rk") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	for _, dir := range []string{"/etc/routekeeper", "/var/lib/" + u["StateDirectory"]} {
		if err := os.MkdirAll(root+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	e := emulatortest.New(t, emulator.Options{})
	demo, err := emulator.BuildDemo(e, emulatortest.Operator)
	if err != nil {
		t.Fatal(err)
	}
	azure, err := e.Start(root+"/azure", "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { azure.Close() })
	if out, err := command(t, "/usr/local/bin/routekeeper --emulator "+root+
		"/azure init --cluster "+string(demo.Cluster)+
		" --out /etc/routekeeper/routes.yaml", root, nil).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	promote := "/usr/local/bin/routekeeper --emulator " + root +
		"/azure promote shop -f /etc/routekeeper/routes.yaml --yes"
	if out, err := command(t, promote, root, nil).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	socket, err := net.ListenUnixgram("unixgram",
		&net.UnixAddr{Name: root + "/notify", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := port.Addr().String()
	port.Close()
	flags := strings.Replace(set(t, "ROUTEKEEPER_FLAGS"), "127.0.0.1:8080", address, 1) +
		" --emulator " + root + "/azure"
	service := command(t, u["ExecStart"], root, map[string]string{"ROUTEKEEPER_FLAGS": flags})
	watchdog, err := time.ParseDuration(u["WatchdogSec"])
	if err != nil || watchdog < 30*time.Second || watchdog > time.Minute {
		t.Errorf("WatchdogSec=%s: expected half a minute to a minute, so that a stuck keeper "+
			"ends within three", u["WatchdogSec"])
	}
	if u["Restart"] != "on-failure" { // a watchdog that fires is a failure: systemd.service(5)
		t.Errorf("Restart=%s: a stuck keeper is not started again", u["Restart"])
	}
	service.Env = append(service.Env, "NOTIFY_SOCKET="+root+"/notify", "WATCHDOG_USEC=200000")
	log, err := os.Create(root + "/log")
	if err != nil {
		t.Fatal(err)
	}
	service.Stdout, service.Stderr = log, log
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Process.Kill() }) // no effect if it has ended already
	said := func() string {
		raw, err := os.ReadFile(root + "/log")
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if u["Type"] != "notify" {
		t.Fatalf("Type=%s", u["Type"])
	}
	toldNext(t, socket, "READY=1")
	toldSystemd(t, socket, "WATCHDOG=1")
	toldSystemd(t, socket, "WATCHDOG=1")
	response, err := http.Get("http://" + address + "/readyz")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("it is not up: %v %v\n%s", response, err, said())
	}
	if _, err := os.Stat(root + "/var/lib/routekeeper/routekeeper.history.db"); err != nil {
		t.Error(err)
	}
	if err := command(t, u["ExecReload"], root,
		map[string]string{"MAINPID": strconv.Itoa(service.Process.Pid)}).Run(); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(time.Minute); !strings.Contains(said(),
		"the config was read again, without changes"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the config was not read again:\n%s", said())
		}
	}
	signal := map[string]os.Signal{"SIGINT": os.Interrupt,
		"SIGTERM": syscall.SIGTERM}[u["KillSignal"]]
	if err := service.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	toldNext(t, socket, "STOPPING=1")
	if err := service.Wait(); err != nil {
		t.Errorf("%v:\n%s", err, said())
	}
	for dir, want := range map[string]string{"/etc/routekeeper": "routes.yaml",
		"/var/lib":             "routekeeper",
		"/var/lib/routekeeper": "routekeeper.history.db routekeeper.history.db-lock"} {
		var names []string
		entries, err := os.ReadDir(root + dir)
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%s has %s, want %s: %v", dir, got, want, err)
		}
	}
}

// TestUnitFails: a start that cannot succeed is a failed start for systemd.
func TestUnitFails(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(root+"/etc/routekeeper", 0o755); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	out, err := command(t, unit(t)["ExecStart"], root, nil).CombinedOutput()
	if !errors.As(err, &exit) || exit.ExitCode() != 1 ||
		!strings.Contains(string(out), "no .yaml, .yml or .json file in this folder") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestSystemd has systemd check the unit, and rate its exposure.
func TestSystemd(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("ROUTEKEEPER_NEED_SYSTEMD") != "" {
			t.Fatal("systemd-analyze is not installed: apt-get install systemd")
		}
		t.Skip("NOT RUN: systemd-analyze is not installed, so nothing has checked the unit: " +
			"apt-get install systemd")
	}
	raw, err := os.ReadFile("systemd/routekeeper.service")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "routekeeper.service")
	if err := os.WriteFile(file, bytes.ReplaceAll(raw, []byte("/usr/local/bin/routekeeper"),
		[]byte(self)), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", file).CombinedOutput(); err != nil ||
		len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	const most = "20" // 2.0 of 10
	if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold="+
		most, file).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
