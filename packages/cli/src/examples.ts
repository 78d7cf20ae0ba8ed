/** Examples for the help of every command. */
import type { Command } from "commander";

/**
 * Keyed by the words of the command. In a clone of the project, `sandkasten` is
 * packages/cli/bin/sandkasten.
 */
const EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  "": ["sandkasten run python3 -c 'print(6 * 7)'", "sandkasten shell --image python"],
  start: ["sandkasten start", "sandkasten start --no-agents --listen 127.0.0.1:9000"],
  daemon: ["sandkasten daemon --config /etc/sandkasten/sandkasten.yaml"],
  doctor: ["sandkasten doctor", "sandkasten doctor --json"],
  init: ["sandkasten init"],
  config: ["sandkasten config", "sandkasten config --set session_ttl_seconds=600"],
  run: [
    "sandkasten run ls -la",
    "sandkasten run 'echo $HOME && id'",
    "sandkasten run --image python --timeout 30s python3 -c 'print(6 * 7)'",
  ],
  exec: [
    "sandkasten exec ses_1f2e 'cd src && make'",
    "sandkasten exec ses_1f2e ls -la /workspace",
    "sandkasten exec --detach ses_1f2e './server --port 3000'",
  ],
  shell: ["sandkasten shell", "sandkasten shell ses_1f2e", "sandkasten shell --image node -c node"],
  shells: ["sandkasten shells ses_1f2e", "sandkasten shells ses_1f2e --close build"],
  ps: ["sandkasten ps ses_1f2e", "sandkasten ps ses_1f2e --running"],
  logs: ["sandkasten logs ses_1f2e", "sandkasten logs --follow ses_1f2e exe_0199a"],
  events: ["sandkasten events --follow", "sandkasten events ses_1f2e --types exec.ended"],
  cancel: ["sandkasten cancel ses_1f2e exe_0199a"],
  create: [
    "sandkasten create --image python --ttl 2h",
    "sandkasten create --workspace my-project --memory 2g --cpus 2",
    "sandkasten create --allow '*.example.com:443'",
  ],
  ls: ["sandkasten ls", "sandkasten ls --all --metadata team=data"],
  inspect: ["sandkasten inspect ses_1f2e", "sandkasten inspect ses_1f2e --json"],
  renew: ["sandkasten renew ses_1f2e", "sandkasten renew ses_1f2e --ttl 8h"],
  commit: ["sandkasten commit ses_1f2e my-tools:1"],
  cp: [
    "sandkasten cp data.csv ses_1f2e:data.csv",
    "sandkasten cp ses_1f2e:/workspace/results ./results",
  ],
  ports: ["sandkasten ports ses_1f2e", "sandkasten ports ses_1f2e --preview 3000"],
  egress: ["sandkasten egress ses_1f2e", "sandkasten egress --follow ses_1f2e"],
  forward: ["sandkasten forward ses_1f2e 5432", "sandkasten forward ses_1f2e 3000:8000"],
  pause: ["sandkasten pause ses_1f2e"],
  resume: ["sandkasten resume ses_1f2e"],
  stats: ["sandkasten stats ses_1f2e"],
  isolation: ["sandkasten isolation ses_1f2e"],
  rm: ["sandkasten rm ses_1f2e", "sandkasten rm --all"],
  sweep: ["sandkasten sweep --data-dir /var/lib/sandkasten --yes"],
  agent: ["sandkasten agent list", "sandkasten agent run coder 'Write a test for parse.py'"],
  "agent list": ["sandkasten agent list --dir examples/agents"],
  "agent show": ["sandkasten agent show coder"],
  "agent validate": ["sandkasten agent validate", "sandkasten agent validate coder"],
  "agent run": [
    "sandkasten agent run demo --dir examples/agents",
    "sandkasten agent run coder 'Write a test for parse.py'",
  ],
  "agent runs": ["sandkasten agent runs --agent coder --status failed"],
  "agent logs": ["sandkasten agent logs --follow run_4b1d"],
  "agent cancel": ["sandkasten agent cancel run_4b1d"],
  workflow: ["sandkasten workflow list", "sandkasten workflow run review-and-fix"],
  "workflow list": ["sandkasten workflow list --dir examples/agents"],
  "workflow show": ["sandkasten workflow show review-and-fix"],
  "workflow validate": ["sandkasten workflow validate"],
  "workflow run": ["sandkasten workflow run review-and-fix --dir examples/agents"],
  "workflow resume": ["sandkasten workflow resume run_4b1d"],
  "workflow runs": ["sandkasten workflow runs --status waiting_approval"],
  "workflow inspect": ["sandkasten workflow inspect run_4b1d"],
  "workflow approve": ["sandkasten workflow approve run_4b1d --comment 'looks right'"],
  "workflow reject": ["sandkasten workflow reject run_4b1d deploy"],
  "workflow cancel": ["sandkasten workflow cancel run_4b1d"],
  agents: ["sandkasten agents serve"],
  "agents serve": ["sandkasten agents serve --dir examples/agents"],
  mcp: ["sandkasten mcp"],
  workspace: ["sandkasten workspace ls", "sandkasten workspace create my-project"],
  "workspace ls": ["sandkasten workspace ls"],
  "workspace create": ["sandkasten workspace create my-project"],
  "workspace rm": ["sandkasten workspace rm my-project"],
  image: ["sandkasten image ls", "sandkasten image pull python:3.12-slim"],
  "image ls": ["sandkasten image ls", "sandkasten image ls --backend docker"],
  "image pull": ["sandkasten image pull python:3.12-slim"],
  "image import": [
    "sandkasten image import tools:1 tools.tar",
    "sandkasten image import --format oci-archive app:2 app.tar",
  ],
  "image build": [
    "sandkasten image build -t my-tools:1 .",
    "sandkasten image build -t my-tools:1 -f docker/Dockerfile --build-arg VERSION=2 --network host .",
  ],
  "image build-standard": [
    "sandkasten image build-standard",
    "sandkasten image build-standard python --suite bookworm",
  ],
  "image rm": ["sandkasten image rm tools:1"],
  "image gc": ["sandkasten image gc"],
  key: ["sandkasten key list", "sandkasten key create ci"],
  "key create": ["sandkasten key create ci --scope use --expires-in 86400"],
  "key list": ["sandkasten key list"],
  "key revoke": ["sandkasten key revoke key_9c3f"],
  profile: [
    "sandkasten profile add prod https://sandboxes.example.com < key.txt",
    "sandkasten profile list",
  ],
  "profile add": ["sandkasten profile add prod https://sandboxes.example.com < key.txt"],
  "profile list": ["sandkasten profile list"],
  "profile use": ["sandkasten profile use prod", "sandkasten profile use local"],
  "profile remove": ["sandkasten profile remove prod"],
  completion: ["source <(sandkasten completion bash)"],
  version: ["sandkasten version"],
};

/** Adds the examples to the help of each command. */
export function addExamples(command: Command): void {
  const examples = examplesOf(command);
  if (examples.length > 0)
    command.addHelpText("after", `\nExamples:\n${examples.map((one) => `  ${one}`).join("\n")}`);
  for (const inner of command.commands) addExamples(inner);
}

export function examplesOf(command: Command): readonly string[] {
  return EXAMPLES[wordsOf(command)] ?? [];
}

/** All words after the program's name. */
function wordsOf(command: Command): string {
  if (command.parent === null) return "";
  return `${wordsOf(command.parent)} ${command.name()}`.trim();
}
