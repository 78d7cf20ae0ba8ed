# Generated from the asynchronous version by generate_sync.py. Do not edit.
"""Sessions, workspaces and images on a real daemon."""

from sandkasten import SyncSandboxClient, SandboxError

from .daemon_case import DaemonCase


class Sessions(DaemonCase):
    def test_sessions_are_created_found_and_listed(self) -> None:
        created = self.client.create_session(
            "host", ttl_seconds=90, workspace_id="of-python", metadata={"made": "here"}
        )
        with created:
            info = created.info
            self.assertEqual((info.ttl_seconds, info.workspace_id), (90, "of-python"))
            self.assertTrue(created.created)
            found = self.client.get_session(created.id)
            self.assertEqual((found.id, found.info.status), (created.id, "running"))
            listed = self.client.list_sessions("running", metadata={"made": "here"})
            self.assertEqual([session.id for session in listed], [created.id])
        self.assertIn(created.id, [session.id for session in self.client.list_sessions()])
        self.assertEqual((created.refresh()).status, "destroyed")

    def test_a_key_finds_the_active_session(self) -> None:
        first = self.client.create_session("host", key="user:python:shared")
        with first:
            second = self.client.create_session("host", key="user:python:shared")
            self.assertEqual((second.id, first.created, second.created), (first.id, True, False))

    def test_the_options_of_a_session_apply(self) -> None:
        made = self.client.create_session(
            "host", env={"GREETING": "hi"}, limits={"memory_mb": 64, "pids": 40}, network="none"
        )
        with made:
            self.assertEqual((made.exec("echo $GREETING")).stdout, "hi\n")
            self.assertEqual((made.info.limits["memory_mb"], made.info.limits["pids"]), (64, 40))
            self.assertEqual((made.stats()).memory_limit, 64 * 2**20)
            report = made.isolation()
            self.assertTrue(all(fact.name for fact in report.facts))
            self.assertIn(report.tier, ("strong", "standard", "weak"))
            self.assertEqual((made.renew(ttl_seconds=120)).ttl_seconds, 120)
            self.assertEqual((made.pause()).status, "paused")
            self.assertEqual((made.resume()).status, "running")

    def test_a_network_is_changed_and_followed(self) -> None:
        made = self.client.create_session("host", network={"allow": []})
        with made:
            ask = "curl -s -o /dev/null -w '%{http_code}' http://refused.test/"
            self.assertEqual((made.exec(ask)).stdout, "403")
            for record in made.follow_egress():
                self.assertEqual((record["name"], record["verdict"]), ("refused.test", "refused"))
                break
            page = made.egress(limit=10)
            self.assertEqual([record["name"] for record in page["records"]], ["refused.test"])
            later = made.egress(cursor=page["records"][-1]["cursor"])
            self.assertEqual(later["records"], [])
            allowed = made.set_network({"allow": ["ok.test"]})
            self.assertEqual(allowed.network, {"allow": ["ok.test:80,443"]})
            with self.assertRaises(SandboxError) as caught:
                made.set_network({"allow": ["refused.test"]})
            self.assertEqual(caught.exception.code, "PERMISSION_DENIED")
            self.assertIn("network.allow", str(caught.exception))

    def test_a_workspace_outlives_its_session(self) -> None:
        session = self.client.create_session("host", workspace_id="python-kept")
        with session:
            session.write("note", "kept")
        files = self.client.workspace_files("python-kept")
        self.assertEqual(files.read_text("note"), "kept")
        self.assertIn("python-kept", [space.id for space in self.client.list_workspaces()])
        self.client.delete_workspace("python-kept")
        self.assertNotIn("python-kept", [space.id for space in self.client.list_workspaces()])

    def test_the_daemon_describes_itself(self) -> None:
        self.assertTrue(self.client.health())
        version = self.client.version()
        self.assertIn(self.session.info.backend, version["backends"])
        self.assertIn("host", [image.reference for image in self.client.list_images()])
        with self.assertRaises(SandboxError) as caught:
            self.client.remove_image("not-here")
        self.assertEqual(caught.exception.code, "INVALID_IMAGE")

    def test_refusals_have_the_code_of_the_daemon(self) -> None:
        with self.assertRaises(SandboxError) as caught:
            self.client.create_session(backend="of-clay")
        usual = self.session.info.backend
        self.assertEqual(caught.exception.code, "INVALID_REQUEST")
        self.assertEqual(caught.exception.details, {"backends": [usual]})
        with self.assertRaises(SandboxError) as caught:
            self.client.get_session("../sessions?x")
        self.assertEqual(caught.exception.code, "INVALID_REQUEST")
        stranger = SyncSandboxClient(api_key="wrong-key")
        with self.assertRaises(SandboxError) as caught:
            stranger.create_session()
        stranger.close()
        self.assertEqual((caught.exception.code, caught.exception.status), ("UNAUTHORIZED", 401))

    def test_a_destroyed_session_is_gone_and_can_be_destroyed_again(self) -> None:
        session = self.client.create_session(image="host")
        session.destroy()
        session.destroy()
        with self.assertRaises(SandboxError) as caught:
            session.exec("true")
        self.assertIn(caught.exception.status, (404, 410))
