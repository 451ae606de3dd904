package kubernetes

import (
	"os/exec"
	"syscall"
)

// endsWithParent makes a program end when this one is killed.
func endsWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
