/** A small Python project with bugs, and the edits that an agent makes until its tests pass. */

const MONEY = `"""Amounts of money, exact to the cent."""
from decimal import Decimal, InvalidOperation, ROUND_HALF_EVEN

CENT = Decimal("0.01")
SYMBOLS = {"EUR": "€", "USD": "$", "GBP": "£"}


class AmountError(ValueError):
    """Text that is not an amount."""


def parse_amount(text):
    """Reads amounts such as 1,234.50, (12.00) and -3."""
    cleaned = text.strip().replace(",", "")
    negative = cleaned.startswith("(") and cleaned.endswith(")")
    if negative:
        cleaned = cleaned[1:-1]
    try:
        amount = Decimal(cleaned)
    except InvalidOperation as error:
        raise AmountError(f"not an amount: {text!r}") from error
    return amount.quantize(CENT, rounding=ROUND_HALF_EVEN)


def format_amount(amount, currency="EUR"):
    """Writes amounts as people read them, negative ones with a minus sign."""
    sign = "-" if amount < 0 else ""
    return f"{sign}{SYMBOLS.get(currency, currency + ' ')}{abs(amount):.2f}"
`;

const ENTRIES = `"""Lines of a bank statement."""
import csv
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from money import parse_amount


@dataclass(frozen=True)
class Entry:
    day: date
    account: str
    category: str
    amount: Decimal
    note: str = ""

    @property
    def month(self):
        return f"{self.day.year:04}-{self.day.month:02}"


class StatementError(ValueError):
    """A line that cannot be read, with its number."""

    def __init__(self, number, reason):
        super().__init__(f"line {number}: {reason}")
        self.number = number


def parse_row(number, row):
    if len(row) < 4:
        raise StatementError(number, f"expected 4 fields, found {len(row)}")
    try:
        day = date.fromisoformat(row[0].strip())
        amount = parse_amount(row[3])
    except ValueError as error:
        raise StatementError(number, str(error)) from error
    note = row[4].strip() if len(row) > 4 else ""
    return Entry(day, row[1].strip(), row[2].strip(), amount, note)


def parse_statement(lines):
    """All entries, oldest first. Empty lines and comments are left out."""
    entries = []
    for number, row in enumerate(csv.reader(lines)):
        if not row or row[0].startswith("#"):
            continue
        entries.append(parse_row(number, row))
    return entries
`;

const ACCOUNTS = `"""What the entries add up to."""
from collections import defaultdict
from decimal import Decimal


class Ledger:
    def __init__(self, entries=()):
        self.entries = []
        self.balances = defaultdict(Decimal)
        for entry in entries:
            self.add(entry)

    def add(self, entry):
        self.entries.append(entry)
        self.balances[entry.account] += entry.amount

    def transfer(self, source, target, amount):
        """Moves money between two accounts; never more than there is."""
        if amount <= 0:
            raise ValueError("a transfer needs a positive amount")
        if self.balances[source] < amount:
            raise ValueError(f"{source} has only {self.balances[source]}")
        self.balances[source] -= amount
        self.balances[target] = amount

    def by_category(self):
        """Sums of all categories, the largest expense first."""
        sums = defaultdict(Decimal)
        for entry in self.entries:
            sums[entry.category] += entry.amount
        return sorted(sums.items())

    def by_month(self):
        sums = defaultdict(Decimal)
        for entry in self.entries:
            sums[entry.month] += entry.amount
        return sorted(sums.items())
`;

const REPORT = `"""Tables as text."""
from money import format_amount


def table(title, rows, currency="EUR"):
    """Names on the left, amounts on the right, a line between title and rows."""
    shown = [(name, format_amount(amount)) for name, amount in rows]
    left = max([len(name) for name, _ in shown] + [len(title)])
    right = max([len(amount) for _, amount in shown] + [0])
    lines = [title, "-" * (left + right + 2)]
    lines += [f"{name:<{left}}  {amount:>{right}}" for name, amount in shown]
    return "\\n".join(lines)


def report(ledger, currency="EUR"):
    parts = [
        table("Accounts", sorted(ledger.balances.items()), currency),
        table("Categories", ledger.by_category(), currency),
    ]
    return "\\n\\n".join(parts)
`;

const TESTS = `import unittest
from datetime import date
from decimal import Decimal

from accounts import Ledger
from entries import StatementError, parse_statement
from money import AmountError, format_amount, parse_amount
from report import report, table

STATEMENT = """# day,account,category,amount,note
2026-01-15,giro,salary,"2,500.00"
2026-01-03,giro,rent,(850.00),January
2026-02-03,giro,rent,(850.00),February
2026-02-10,giro,food,-81.37,market
""".splitlines()


class MoneyTest(unittest.TestCase):
    def test_reads_amounts(self):
        self.assertEqual(parse_amount("1,234.50"), Decimal("1234.50"))
        self.assertEqual(parse_amount(" -3 "), Decimal("-3.00"))
        self.assertEqual(parse_amount("(12.00)"), Decimal("-12.00"))

    def test_refuses_what_is_no_amount(self):
        with self.assertRaises(AmountError):
            parse_amount("twelve")

    def test_writes_amounts(self):
        self.assertEqual(format_amount(Decimal("-1234.5")), "-€1,234.50")
        self.assertEqual(format_amount(Decimal("2"), "CHF"), "CHF 2.00")


class EntriesTest(unittest.TestCase):
    def test_reads_a_statement(self):
        entries = parse_statement(STATEMENT)
        self.assertEqual(len(entries), 4)
        self.assertEqual(entries[0].day, date(2026, 1, 3))
        self.assertEqual(entries[0].month, "2026-01")

    def test_names_the_line_that_is_wrong(self):
        with self.assertRaises(StatementError) as caught:
            parse_statement(["2026-01-01,giro,food,-1", "2026-01-32,giro,food,-1"])
        self.assertEqual(caught.exception.number, 2)


class LedgerTest(unittest.TestCase):
    def test_adds_up(self):
        ledger = Ledger(parse_statement(STATEMENT))
        self.assertEqual(ledger.balances["giro"], Decimal("718.63"))
        self.assertEqual(ledger.by_category()[0], ("rent", Decimal("-1700.00")))

    def test_transfers(self):
        ledger = Ledger(parse_statement(STATEMENT))
        ledger.transfer("giro", "savings", Decimal("100.00"))
        ledger.transfer("giro", "savings", Decimal("50.00"))
        self.assertEqual(ledger.balances["savings"], Decimal("150.00"))
        with self.assertRaises(ValueError):
            ledger.transfer("giro", "savings", Decimal("10000"))


class ReportTest(unittest.TestCase):
    def test_aligns_columns(self):
        lines = table("Sum", [("a", Decimal("1")), ("bcde", Decimal("-20"))]).split("\\n")
        self.assertEqual(lines[2:], ["a       €1.00", "bcde  -€20.00"])

    def test_has_months(self):
        text = report(Ledger(parse_statement(STATEMENT)))
        self.assertIn("2026-01", text)
        self.assertIn("Months", text)

    def test_uses_the_currency(self):
        text = report(Ledger(parse_statement(STATEMENT)), "USD")
        self.assertIn("$718.63", text)
`;

/** The initial project. */
export const LEDGER_FILES: Readonly<Record<string, string>> = {
  "money.py": MONEY,
  "entries.py": ENTRIES,
  "accounts.py": ACCOUNTS,
  "report.py": REPORT,
  "test_ledger.py": TESTS,
};

/** Runs after each edit: the agent works on the first failure next. */
export const TEST_COMMAND = ["python3", "-m", "unittest", "--failfast", "test_ledger"];

/** One edit each, in the order of the failures. */
export const LEDGER_EDITS: readonly { path: string; from: string; to: string }[] = [
  {
    path: "entries.py",
    from: "enumerate(csv.reader(lines))",
    to: "enumerate(csv.reader(lines), start=1)",
  },
  {
    path: "entries.py",
    from: "    return entries\n",
    to: "    return sorted(entries, key=lambda entry: entry.day)\n",
  },
  {
    path: "money.py",
    from: "    return amount.quantize(CENT, rounding=ROUND_HALF_EVEN)",
    to: "    amount = amount.quantize(CENT, rounding=ROUND_HALF_EVEN)\n    return -amount if negative else amount",
  },
  {
    path: "accounts.py",
    from: "        return sorted(sums.items())\n\n    def by_month",
    to: "        return sorted(sums.items(), key=lambda item: item[1])\n\n    def by_month",
  },
  {
    path: "accounts.py",
    from: "self.balances[target] = amount",
    to: "self.balances[target] += amount",
  },
  { path: "money.py", from: "{abs(amount):.2f}", to: "{abs(amount):,.2f}" },
  {
    path: "report.py",
    from: `        table("Categories", ledger.by_category(), currency),`,
    to: `        table("Categories", ledger.by_category(), currency),\n        table("Months", ledger.by_month(), currency),`,
  },
  { path: "report.py", from: "format_amount(amount))", to: "format_amount(amount, currency))" },
];
