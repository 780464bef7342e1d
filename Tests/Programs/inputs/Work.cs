// Null references are faults that the virtual machine turns into exceptions; its collector stops threads by signals.
using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

class Work {
    class Node { public Node next; public int[] data; public int Length { get { return data.Length; } } }

    static int Deep(int n) { return n == 0 ? 0 : 1 + Deep(n - 1); }

    static int Main() {
        int caught = 0;
        Node none = null;
        for (int i = 0; i < 2000; i++) try { caught += none.Length; } catch (NullReferenceException) { caught++; }
        Console.WriteLine("caught " + caught);
        var table = new Dictionary<string, Node>();
        for (int i = 0; i < 200000; i++) table["k" + i % 3001] = new Node { data = new int[i % 100], next = table.Count > 0 && i % 2 == 0 ? table.Values.First() : null };
        Console.WriteLine(table.Values.Sum(n => n.Length));
        GC.Collect();
        GC.WaitForPendingFinalizers();
        var parts = new long[8];
        Parallel.For(0, 8, n => { for (int i = 0; i < 100000; i++) parts[n] += Encoding.UTF8.GetBytes("text" + i).Length; });
        Console.WriteLine(string.Join(",", parts));
        for (int i = 1; i < 3000; i++) { IntPtr block = Marshal.AllocHGlobal(i); Marshal.WriteByte(block, i - 1, 7); Marshal.FreeHGlobal(block); }
        var threads = Enumerable.Range(0, 4).Select(n => new Thread(() => { for (int i = 0; i < 200; i++) GC.KeepAlive(new byte[20000]); }) ).ToList();
        threads.ForEach(t => t.Start());
        threads.ForEach(t => t.Join());
        try { int zero = table.Count - 3001; Console.WriteLine(5 / zero); } catch (DivideByZeroException) { Console.WriteLine("divided by zero"); }
        Console.WriteLine(Deep(10000));
        Console.WriteLine(System.Text.RegularExpressions.Regex.Replace("a1b22c333", "([a-z])([0-9]+)", "$2$1"));
        return 9;
    }
}
