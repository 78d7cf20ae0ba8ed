/** What the SDK sends streams with; the types of browsers do not have it yet. */
interface RequestInit {
  duplex?: "half";
}
